package sim

import (
	"strings"
	"testing"
)

// connectionCases test faults in connections.
var connectionCases = []faultCase{
	{spec: "refuse", check: func(t *testing.T, r result) {
		if r.raw != "" || !r.reset {
			t.Errorf("answer = %q, reset %v; want nothing and a reset", r.raw, r.reset)
		}
	}},
	{spec: "reset-before", check: func(t *testing.T, r result) {
		if r.raw != "" || !r.reset {
			t.Errorf("answer = %q, reset %v; want nothing and a reset", r.raw, r.reset)
		}
	}},
	{spec: "eof-before", check: func(t *testing.T, r result) {
		if r.raw != "" || r.reset {
			t.Errorf("answer = %q, reset %v; want nothing and no reset", r.raw, r.reset)
		}
	}},
	{spec: "early-413;linger=1", check: func(t *testing.T, r result) {
		r.wantHead(t, " 413 ", "Connection: close")
	}},
	{spec: "slow-header;gap=100us", more: sixTokens, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "slow-body;gap=50us", more: `,"sim":{"tokens":2}`, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "garbage-head", check: func(t *testing.T, r result) {
		if strings.HasPrefix(r.raw, "HTTP") || r.raw == "" {
			t.Errorf("answer = %q, want bytes that are not HTTP", r.raw)
		}
	}},
}
