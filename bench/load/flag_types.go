package load

import (
	"errors"
	"strconv"
	"time"
)

// Count is a number of requests, above 0. The zero value stands for the default, which a flag of 0
// must not mean.
type Count int

// Span is a time above 0. Its zero value is as Count's: a run of no time at all would else be one
// of 20 seconds.
type Span time.Duration

var errNotPositive = errors.New("want more than 0")

// UnmarshalText implements encoding.TextUnmarshaler, by which flags are read.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return errors.New("want a whole number")
	}
	if n <= 0 {
		return errNotPositive
	}
	*c = Count(n)
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler, by which flags are read.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("want a time with its unit, such as 30s or 5m")
	}
	if d <= 0 {
		return errNotPositive
	}
	*s = Span(d)
	return nil
}
