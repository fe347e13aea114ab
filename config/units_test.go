package config

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for text, want := range map[string]Duration{
		"0": 0, "0s": 0, "250ms": Duration(250 * time.Millisecond), "1h30m": Duration(90 * time.Minute), "1.5s": Duration(1500 * time.Millisecond),
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "64KiB": 64 << 10, "1.5MiB": 3 << 19, "2 GiB": 2 << 30, "1TiB": 1 << 40, "64KB": 64000, "1MB": 1e6, "3GB": 3e9, "7B": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]Percent{"0%": 0, "25%": 25, "12.5 %": 12.5, "100%": 100} {
		if got, err := ParsePercent(text); err != nil || got != want {
			t.Errorf("ParsePercent(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "5", "-1s", "5 minutes", "1e9999h", "NaN"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("duration %q is %v", text, d)
		}
	}
	for _, text := range []string{"", "x", "-1", "5XB", "NaN", "Inf", "1e300", "KiB", "8589934592GiB"} {
		if b, err := ParseBytes(text); err == nil {
			t.Errorf("size %q is %v", text, b)
		}
	}
	for _, text := range []string{"", "5", "%", "-1%", "101%", "NaN%", "x%"} {
		if p, err := ParsePercent(text); err == nil {
			t.Errorf("share %q is %v", text, p)
		}
	}
}

// FuzzUnits checks that formatting and parsing a parsed value again yields the same value.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"0", "250ms", "1h30m", "64KiB", "1.5MiB", "20%", "12.5%", "NaN%", "0x1p4", "1_0", "9223372036854775807", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(d.String()); err != nil || again != d || d < 0 {
				t.Errorf("duration %q: %v, then %v %v", s, d, again, err)
			}
		}
		if b, err := ParseBytes(s); err == nil {
			if again, err := ParseBytes(b.String()); err != nil || again != b && b < 1<<53 || b < 0 {
				t.Errorf("size %q: %v, then %v %v", s, b, again, err)
			}
		}
		if p, err := ParsePercent(s); err == nil {
			if again, err := ParsePercent(p.String()); err != nil || again != p || p < 0 || p > 100 {
				t.Errorf("share %q: %v, then %v %v", s, p, again, err)
			}
		}
	})
}

func TestParseResolve(t *testing.T) {
	for in, want := range map[string]Resolve{
		"0":                       {},
		"30s":                     {Every: Duration(30 * time.Second)},
		"srv:_http._tcp.vllm":     {Every: Duration(30 * time.Second), SRV: "_http._tcp.vllm"},
		"srv:_HTTP._tcp.vllm. 5s": {Every: Duration(5 * time.Second), SRV: "_http._tcp.vllm"},
		"srv:vllm.service.consul": {Every: Duration(30 * time.Second), SRV: "vllm.service.consul"},
		"srv:":                    {},
		"srv:a b":                 {},
		"srv:a/b":                 {},
		"a":                       {},
		"srv:a -5s":               {},
	} {
		got, err := ParseResolve(in)
		if got != want || (err != nil) != (want == Resolve{} && in != "0") {
			t.Errorf("ParseResolve(%q) = %+v, %v, want %+v", in, got, err, want)
		}
		if again, err := ParseResolve(got.String()); want != (Resolve{}) && (err != nil || again != got) {
			t.Errorf("%s is written as %s: %v", in, got, err)
		}
	}
}
