package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a duration in Go's notation, such as "250ms", "10s" or "1h30m". A bare 0 is allowed.
// A parsed Duration is not negative.
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String returns d in Go's notation.
func (d Duration) String() string { return time.Duration(d).String() }

// ParseDuration parses the text form of a Duration.
func ParseDuration(s string) (Duration, error) {
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number with a unit, such as 250ms, 10s or 5m", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Duration(d), nil
}

// Bytes is a size in bytes, with a binary unit ("64KiB", "32MiB", "1GiB") or without one. KB, MB
// and GB are decimal units.
type Bytes int64

// byteUnits lists each suffix before any shorter suffix with which it ends, such as KiB before B.
var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseBytes parses a size such as "64KiB".
func ParseBytes(s string) (Bytes, error) {
	number, factor := s, 1.0
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*factor > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size: write a number with a unit, such as 64KiB or 32MiB", s)
	}
	return Bytes(n * factor), nil
}

// String returns b with the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range []struct {
		suffix string
		shift  uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if b != 0 && b%(1<<u.shift) == 0 {
			return strconv.FormatInt(int64(b>>u.shift), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Percent is a percentage between 0 and 100, such as "20%".
type Percent float64

// ParsePercent parses a percentage such as "20%".
func ParsePercent(s string) (Percent, error) {
	number, ok := strings.CutSuffix(s, "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || math.IsNaN(n) || n < 0 || n > 100 {
		return 0, fmt.Errorf("%q is not a share: write a number from 0%% to 100%%", s)
	}
	return Percent(n), nil
}

// Of returns p percent of total.
func (p Percent) Of(total int64) int64 { return int64(float64(total) * float64(p) / 100) }

// String returns p as written in a configuration.
func (p Percent) String() string { return strconv.FormatFloat(float64(p), 'g', -1, 64) + "%" }

// UnmarshalYAML implements the YAML decoder's interface.
func (d *Duration) UnmarshalYAML(b []byte) error { return parseScalar(b, ParseDuration, d) }

// UnmarshalYAML implements the YAML decoder's interface.
func (b *Bytes) UnmarshalYAML(src []byte) error { return parseScalar(src, ParseBytes, b) }

// UnmarshalYAML implements the YAML decoder's interface.
func (p *Percent) UnmarshalYAML(b []byte) error { return parseScalar(b, ParsePercent, p) }

// Resolve configures how often an upstream's host name is looked up, and whether the look-up uses
// SRV records. It is written as a Duration, or as "srv:NAME", optionally followed by a space and a
// Duration (default: 30 s).
type Resolve struct {
	Every Duration // 0 if the upstream's host name is not looked up at intervals
	SRV   string   // name of the SRV records; if empty, the addresses of the URL's host are looked up
}

const defaultSRVInterval = Duration(30 * time.Second)

// ParseResolve parses the value of `resolve`.
func ParseResolve(s string) (r Resolve, err error) {
	name, isSRV := strings.CutPrefix(s, "srv:")
	if !isSRV {
		if r.Every, err = ParseDuration(s); err != nil && !strings.HasPrefix(s, "-") {
			err = fmt.Errorf("%w, or srv:NAME for SRV records", err)
		}
		return r, err
	}
	name, every, given := strings.Cut(name, " ")
	r = Resolve{Every: defaultSRVInterval, SRV: strings.TrimSuffix(strings.ToLower(name), ".")}
	if r.SRV == "" || len(r.SRV) > maxHostNameBytes || strings.Trim(r.SRV, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return Resolve{}, fmt.Errorf("%q names no service: write srv:_http._tcp.vllm", s)
	}
	if given {
		if r.Every, err = ParseDuration(strings.TrimSpace(every)); err != nil {
			return Resolve{}, err
		}
	}
	return r, nil
}

const maxHostNameBytes = 253

// String returns r as written in a configuration.
func (r Resolve) String() string {
	switch {
	case r.SRV == "":
		return r.Every.String()
	case r.Every == defaultSRVInterval:
		return "srv:" + r.SRV
	}
	return "srv:" + r.SRV + " " + r.Every.String()
}

// UnmarshalYAML implements the YAML decoder's interface.
func (r *Resolve) UnmarshalYAML(b []byte) error { return parseScalar(b, ParseResolve, r) }

func parseScalar[T any](src []byte, parse func(string) (T, error), into *T) error {
	v, err := parse(strings.Trim(strings.TrimSpace(string(src)), `"'`))
	if err == nil {
		*into = v
	}
	return err
}
