package observe

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/raced"
)

// keysPage returns the key metrics while the given calls are running.
func keysPage(c *Calls, running map[string]int) string {
	var b bytes.Buffer
	c.AppendKeyMetrics(&b, running)
	return b.String()
}

func TestKeys(t *testing.T) {
	c, _ := newTestCalls(t)
	c.SetConfigured([]string{"m"}, []string{"a"}, []string{"k", "role"})
	if text := keysPage(c, nil); !strings.Contains(text, `penstock_key_calls_total{key="k"} 0`+"\n") {
		t.Errorf("a key is not there before its first call:\n%s", text)
	}
	finish(c, successfulRecord("m", "a"))
	token := successfulRecord("m", "a")
	token.Key, token.Template = "https://idp/somebody", "role"
	finish(c, token)
	gone := successfulRecord("m", "a")
	gone.Key = "gone"
	finish(c, gone)
	for _, r := range []Record{
		{Key: "k", Outcome: OutcomeLimited, Status: 429, Code: "rate_limited", Limit: "requests_per_minute"},
		{Key: "k", Outcome: OutcomeLimited, Status: 429, Code: "rate_limited", Limit: "requests_per_minute"},
		{Key: "k", Outcome: OutcomeLimited, Status: 429, Code: "capacity_full", Attempts: 1},
		{Key: "k", Outcome: OutcomeClientError, Status: 403, Code: "model_not_allowed"},
		// Rejected by the engine.
		{Key: "k", Outcome: OutcomeClientError, Status: 400, Code: "invalid_value", Attempts: 1},
		{Key: "k", Outcome: OutcomeUpstreamFail, Status: 502, Code: "upstream_failed", Attempts: 2},
		{Key: "k", Outcome: OutcomeClientGone, Status: 499, Code: "client_gone"},
		{Outcome: OutcomeClientError, Status: 401, Code: "invalid_api_key"},
	} {
		finish(c, &r)
	}
	text := keysPage(c, map[string]int{"k": 2, "gone": 1, "role": 1})
	for _, want := range []string{
		`penstock_key_calls_total{key="k"} 8`, `penstock_key_calls_total{key="role"} 1`, `penstock_key_calls_total{key="other"} 1`, `penstock_key_calls_total{key="-"} 1`,
		`penstock_key_tokens_total{key="k",kind="prompt"} 10`, `penstock_key_tokens_total{key="k",kind="cached"} 4`, `penstock_key_tokens_total{key="k",kind="completion"} 20`,
		`penstock_key_refusals_total{key="k",reason="requests_per_minute"} 2`, `penstock_key_refusals_total{key="k",reason="capacity_full"} 1`,
		`penstock_key_refusals_total{key="k",reason="model_not_allowed"} 1`, `penstock_key_refusals_total{key="-",reason="invalid_api_key"} 1`,
		`penstock_key_calls_inflight{key="k"} 2`, `penstock_key_calls_inflight{key="other"} 1`, `penstock_key_calls_inflight{key="role"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "penstock_key_refusals_total"); n != 4 {
		t.Errorf("%d refusals, want 4:\n%s", n, text)
	}
	if strings.Contains(text, "somebody") || strings.Contains(text, `"gone"`) {
		t.Errorf("a name that the configuration does not have:\n%s", text)
	}
	c.SetConfigured([]string{"m"}, []string{"a"}, []string{"role"}) // a reload removes k
	finish(c, successfulRecord("m", "a"))
	if text := keysPage(c, nil); strings.Contains(text, `key="k"`) || !strings.Contains(text, `penstock_key_calls_total{key="other"} 2`) || !strings.Contains(text, `penstock_key_calls_total{key="role"} 1`) {
		t.Errorf("behind the reload:\n%s", text)
	}
}

// TestKeysAreBounded checks that if there are more than maxKeySeries keys, the last keys share a
// series.
func TestKeysAreBounded(t *testing.T) {
	c, _ := newTestCalls(t)
	var ids []string
	for i := range maxKeySeries + 5 {
		ids = append(ids, fmt.Sprint("team-", i))
	}
	c.SetConfigured([]string{"m"}, []string{"a"}, ids)
	for _, id := range ids {
		r := successfulRecord("m", "a")
		r.Key = id
		finish(c, r)
	}
	text := keysPage(c, nil)
	if n := strings.Count(text, "penstock_key_calls_total"); n != maxKeySeries+2 {
		t.Errorf("%d keys have series", n)
	}
	for _, want := range []string{`penstock_key_calls_total{key="team-999"} 1`, `penstock_key_calls_total{key="other"} 5`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestKeysAllocateNothing checks that counting a call, or a refusal for a known reason, does not
// allocate.
func TestKeysAllocateNothing(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	c, _ := newTestCalls(t)
	c.SetConfigured([]string{"m"}, []string{"a"}, []string{"k"})
	r, refused := successfulRecord("m", "a"), &Record{Key: "k", Outcome: OutcomeLimited, Code: "rate_limited", Limit: "concurrency", Start: time.Now()}
	c.series.countKey(refused)
	if n := testing.AllocsPerRun(100, func() {
		c.series.countKey(r)
		c.series.countKey(refused)
	}); n != 0 {
		t.Errorf("countKey allocates %v times, want 0", n)
	}
}
