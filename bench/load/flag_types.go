package load

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RequestCount is a positive number of requests. In Options, zero means the default, so a flag of 0
// is an error.
type RequestCount int

// PositiveDuration is a positive duration. A flag of 0 is an error, because otherwise a run of 0 s
// would become a run of 20 s.
type PositiveDuration time.Duration

// TimeFactor scales the times of a trace. A flag of 0 is an error.
type TimeFactor float64

// Bounds of a TimeFactor. At the lower bound, the replay of a day takes a minute and a half. At the
// upper bound, the replay of a minute takes most of a day.
const (
	minTimeFactor = 0.001
	maxTimeFactor = 1000
)

var errTimeFactor = fmt.Errorf("want a number or a fraction from %v (a thousand times as fast) to %v; 2 is half as fast, 1/0.6 six tenths as fast", minTimeFactor, maxTimeFactor)

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *TimeFactor) UnmarshalText(text []byte) error {
	part, whole, fraction := strings.Cut(string(text), "/")
	v, err := strconv.ParseFloat(part, 64)
	if fraction && err == nil {
		var by float64
		by, err = strconv.ParseFloat(whole, 64)
		v /= by
	}
	if err != nil || !(v >= minTimeFactor && v <= maxTimeFactor) {
		return errTimeFactor
	}
	*f = TimeFactor(v)
	return nil
}

var errNotPositive = errors.New("want more than 0")

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *RequestCount) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return errors.New("want a whole number")
	}
	if n <= 0 {
		return errNotPositive
	}
	*c = RequestCount(n)
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *PositiveDuration) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("want a time with its unit, such as 30s or 5m")
	}
	if d <= 0 {
		return errNotPositive
	}
	*s = PositiveDuration(d)
	return nil
}
