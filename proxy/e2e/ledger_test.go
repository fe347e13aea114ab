package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/access/limit"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
)

// ledgerMetrics is the prefix of the metrics that exist only if the edge has a ledger.
const ledgerMetrics = "penstock_ledger_"

func usageOf(t *testing.T, e *rig.Edge) (r observe.UsageReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.Fetch("GET", e.Admin+"/-/usage").WantStatus(200).Body), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLedger checks that usage survives a kill and an orderly exit, and equals the engines' counts.
// A second edge with the same ledger must not start.
func TestLedger(t *testing.T) {
	t.Parallel()
	p := rig.StartProgram(t, rig.Setup{
		Top: "ledger: { path: usage.ledger, export: [{ file: usage.jsonl }] }", Model: `pricing: { input: "1", output: "2.5" }`,
	})
	path := filepath.Join(p.Dir, "usage.ledger")
	prompt, completion := uint64(0), uint64(0)
	call := func(body string) {
		t.Helper()
		var answer struct {
			Usage struct {
				Prompt     uint64 `json:"prompt_tokens"`
				Completion uint64 `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(p.Post(chatPath, body).WantStatus(200).Body), &answer); err != nil {
			t.Fatal(err)
		}
		prompt, completion = prompt+answer.Usage.Prompt, completion+answer.Usage.Completion
	}
	want := func(calls uint64) {
		t.Helper()
		p.WaitIdle() // a call is counted after its last byte
		got := usageOf(t, p.Edge)
		spend := prompt + completion*5/2 // in millionths; completion is an even number here
		if got.Total.Calls != calls || got.Total.Prompt != prompt || got.Total.Completion != completion || got.Total.Spend.Micros != int64(spend) {
			t.Errorf("%+v, want %d calls, %d and %d tokens, %d millionths", got.Total, calls, prompt, completion, spend)
		}
	}
	for range 3 {
		call(p.ChatRequest(`"max_tokens":10,"sim":{"tokens":10}`))
	}
	want(3)
	rig.WaitFor(t, rig.WaitTimeout, "three calls are on the disk", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `"calls":3,`)
	})
	wantShown(t, p.MetricsText(), func(name string) bool { return strings.HasPrefix(name, ledgerMetrics) })
	if _, errs := command(t, 1, "serve", "--config", p.Path); !strings.Contains(errs, "another edge writes "+path) {
		t.Errorf("a second edge: %s", errs)
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done
	p.Restart()
	want(3)
	call(p.ChatRequest(`"max_tokens":10,"sim":{"tokens":10}`))
	p.WaitIdle()
	p.Signal(syscall.SIGTERM) // immediately, because a drain loses no usage
	p.WantExit(20*time.Second, 0)
	p.Restart()
	want(4)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rig.WantNoLeak(t, "the ledger", string(text), p.Key)
	if text, err = os.ReadFile(filepath.Join(p.Dir, "usage.jsonl")); err != nil {
		t.Fatal(err)
	}
	rig.WantNoLeak(t, "the export", string(text), p.Key)
	rows, sum := map[string]observe.UsageAmount{}, observe.UsageAmount{}
	for line := range strings.Lines(string(text)) {
		var row struct {
			ID string
			observe.UsageAmount
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows[row.ID] = row.UsageAmount
	}
	for _, a := range rows {
		sum.Add(a)
	}
	if got := usageOf(t, p.Edge).Total; sum != got {
		t.Errorf("the export says %+v, usage %+v", sum, got)
	}
}

// TestBudget checks that a key that has exhausted its budget is refused in every dialect, even
// after a restart. After a reload that raises the budget, the key must be admitted again.
func TestBudget(t *testing.T) {
	t.Parallel()
	p := rig.StartProgram(t, rig.Setup{
		Top: "ledger: usage.ledger", Model: `pricing: { input: "1", output: "2" }`,
		Key: `limits: { spend_per_month: "0.000200", tokens_per_day: 100000 }`,
	})
	body := p.ChatRequest(`"max_tokens":60,"sim":{"tokens":60}`) // costs 120 millionths plus the prompt
	p.Post(chatPath, body).WantStatus(200)
	p.WaitIdle()
	shown := p.Status().Keys[0].Budgets
	if len(shown) != 2 || shown[0].Name != "tokens_per_day" || shown[0].Limit != "100000" || shown[1].Limit != "0.0002" || shown[1].Share < 0.6 || shown[1].Renews.Before(time.Now()) {
		t.Errorf("the page has budgets %+v", shown)
	}
	refused := func() {
		t.Helper()
		for path, body := range map[string]string{
			chatPath: body, "/v1/messages": `{"model":"sim","max_tokens":60,"messages":[{"role":"user","content":"hi"}]}`,
			"/v1/responses": `{"model":"sim","max_output_tokens":60,"input":"hi"}`,
		} {
			r := p.Post(path, body).WantStatus(429)
			var answer struct {
				Error struct {
					Code, Type, Message string
					Metadata            struct {
						RetryAfter         int `json:"retry_after"`
						Quota, Limit, Used string
						Remaining, Needed  string
						Renews             int64 `json:"renews_at"`
					}
				}
			}
			if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
				t.Fatal(err)
			}
			e, m := answer.Error, answer.Error.Metadata
			_, next := limit.PeriodNumber(limit.PeriodMonth, time.Now())
			wait := time.Until(next)
			if e.Code != "quota_exceeded" || e.Type != "rate_limit_error" || m.Quota != "spend per month" || m.Limit != "0.0002" || m.Used < "0.00012" || m.Remaining > "0.00008" || m.Needed < "0.00012" ||
				!strings.Contains(e.Message, "leaves "+m.Remaining+" of 0.0002 spend per month, and this call may need "+m.Needed+": a smaller max_tokens may fit.") ||
				time.Unix(m.Renews, 0).Before(next.Add(-time.Minute)) || !strings.Contains(e.Message, next.Format(time.RFC3339)) && wait > time.Minute {
				t.Errorf("%s: answer = %s, want quota_exceeded with the amounts of the spend per month", path, r.Body)
			}
			if after := r.Header.Get("Retry-After"); after != strconv.Itoa(m.RetryAfter) || m.RetryAfter < 1 || r.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: header = %v, want Retry-After: %d and no retry", path, r.Header, m.RetryAfter)
			}
		}
	}
	refused()
	rig.WaitFor(t, rig.WaitTimeout, "the call is on the disk", func() bool {
		text, err := os.ReadFile(filepath.Join(p.Dir, "usage.ledger"))
		return err == nil && strings.Contains(string(text), `"calls":1,`)
	})
	p.Signal(syscall.SIGKILL)
	<-p.Done
	p.Restart()
	refused()
	if n := p.Metric("penstock_limit_refusals_total", `limit="spend_per_month"`); n != 3 {
		t.Errorf("%v refusals are counted", n)
	}
	text, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	p.Write("penstock.yaml", strings.Replace(string(text), `"0.000200"`, `"0.5"`, 1))
	if status, answer := p.Reload(); status != 200 {
		t.Fatalf("reload = %d %s, want 200", status, answer)
	}
	p.Post(chatPath, body).WantStatus(200)
}

// TestUnusedBudget checks that a key that has used nothing may exceed its budget by one answer, but
// not by a long prompt, or by many prompts or choices.
func TestUnusedBudget(t *testing.T) {
	t.Parallel()
	p := rig.StartProgram(t, rig.Setup{Key: "limits: { tokens_per_day: 500 }"})
	for body, path := range map[string]string{
		p.ChatRequest(`"max_tokens":400,"n":2`):                         chatPath,
		`{"model":"sim","prompt":["a","b"],"max_tokens":400}`:           "/v1/completions",
		`{"model":"sim","prompt":"a","n":2,"max_tokens":400}`:           "/v1/completions",
		`{"model":"sim","prompt":"` + strings.Repeat("a ", 5000) + `"}`: "/v1/completions",
		`{"model":"sim","input":"` + strings.Repeat("a ", 5000) + `"}`:  "/v1/responses",
	} {
		if r := p.Post(path, body).WantStatus(429); !strings.Contains(r.Body, `"quota_exceeded"`) || r.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %.80s: answer = %s %v, want quota_exceeded and no retry", path, body, r.Body, r.Header)
		}
	}
	p.Post(chatPath, p.ChatRequest(`"max_tokens":4000,"sim":{"tokens":10}`)).WantStatus(200)
	p.WaitIdle()
	p.Post(chatPath, p.ChatRequest(`"max_tokens":4000,"sim":{"tokens":10}`)).WantStatus(429)
}

// TestFleetUsage checks that the usage of a fleet is the sum over its edges. The sum must include
// the usage before the store lost its data, and the usage while the store was down.
func TestFleetUsage(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	a, b := sharedFleet(t, store.Addr(), "open", "{ requests_per_minute: 1000 }")
	calls := uint64(0)
	call := func(edges ...*penstock) {
		t.Helper()
		for _, e := range edges {
			e.Post(chatPath, e.ChatRequest("")).WantStatus(200)
			calls++
		}
	}
	sum := func(why string) {
		t.Helper()
		for _, e := range []*penstock{a, b} {
			rig.WaitFor(t, rig.WaitTimeout, why, func() bool {
				var all observe.UsageReport
				r := e.Fetch("GET", e.Admin+"/-/usage?fleet=true")
				return r.Status == 200 && json.Unmarshal([]byte(r.Body), &all) == nil && all.Total.Calls == calls
			})
		}
	}
	call(a, b, b, a, b)
	sum("both edges tell the sum")
	if own := usageOf(t, a.Edge).Total.Calls; own != 2 {
		t.Errorf("the edge's own usage has %d calls", own)
	}
	out, _ := command(t, 0, "usage", "--fleet", "--admin", a.Admin, "--month", time.Now().UTC().Format("2006-01"))
	if !strings.Contains(out, "tester") || !strings.Contains(out, "sim") {
		t.Errorf("usage = %s, want tester and sim", out)
	}
	store.SetError("LOADING the store is away")
	call(a, b)
	store.SetError("")
	sum("what was used while the store was away is in the sum")
	store.FlushAll()
	call(a)
	sum("all that was used is told to a store that has forgotten")
	for _, key := range store.Keys() {
		if strings.Contains(key, "usage") {
			fields, err := store.HKeys(key)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				var names []string
				if json.Unmarshal([]byte(field), &names) != nil || len(names) != 3 || names[0] != "tester" || names[1] != "sim" {
					t.Errorf("the store holds %q", field)
				}
			}
		}
	}
	for _, query := range []string{"fleet=bogus", "day=x", "fleet=true&fleet=false", "fleet"} {
		if r := a.Fetch("GET", a.Admin+"/-/usage?"+query); r.Status != 400 || !strings.Contains(r.Body, "fleet=true") {
			t.Errorf("%s = %d %s, want 400 and fleet=true", query, r.Status, r.Body)
		}
	}
	answered := func(path string) (r *rig.Reply) { // waits until the store answers in time
		t.Helper()
		rig.WaitFor(t, rig.WaitTimeout, path, func() bool {
			r = a.Fetch("GET", a.Admin+path)
			return r.Status != 502
		})
		return r
	}
	var all observe.UsageReport
	if r := answered("/-/usage?fleet=true"); json.Unmarshal([]byte(r.Body), &all) != nil || all.Since.Sub(all.Since.Truncate(24*time.Hour)) != 0 {
		t.Errorf("it does not begin with the first day that is known: %s", r.Body)
	}
	for path, want := range map[string]string{"/usage?fleet=true": "<h2>Usage of the fleet</h2>", "/usage": "<h2>Usage of this edge</h2>"} {
		page := answered(path)
		calls := usageOf(t, a.Edge).Total.Calls
		if strings.Contains(path, "fleet") {
			calls = all.Total.Calls
		}
		_, row, _ := strings.Cut(page.Body, `<b>tester</b></th><td data-label="Model">sim</td>`)
		if page.Status != 200 || !strings.Contains(page.Body, want) || !strings.Contains(row, fmt.Sprintf(`data-label="All: calls">%d</td>`, calls)) {
			t.Errorf("%s: %d, %q or %d calls are missing in\n%s", path, page.Status, want, calls, page.Body)
		}
	}
	command(t, 2, "usage", "--day", "yesterday")
	command(t, 2, "usage", "--day", "2026-01-31", "--month", "2026-01")
}

// TestFleetBudget checks that the edges of a fleet share one budget. If the store has lost its
// data, it must receive the usage again. An edge that cannot reach the store must not start with a
// new budget.
func TestFleetBudget(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	a, b := sharedFleet(t, store.Addr(), "divide", "{ tokens_per_month: 700 }")
	used := 0
	for i := range 12 { // each call uses about 70 tokens
		edge := []*penstock{a, b}[i%2]
		r := edge.Post(chatPath, edge.ChatRequest(`"max_tokens":60,"sim":{"tokens":60}`))
		if r.Status == 429 {
			if !strings.Contains(r.Body, "quota_exceeded") || !strings.Contains(r.Body, "tokens per month") {
				t.Errorf("answer = %s, want quota_exceeded for the tokens per month", r.Body)
			}
			continue
		}
		var answer struct {
			Usage struct {
				Total int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(r.WantStatus(200).Body), &answer); err != nil {
			t.Fatal(err)
		}
		used += answer.Usage.Total
		edge.WaitIdle()
	}
	if used > 700 || used < 700-2*140 {
		t.Errorf("%d of 700 tokens are used", used)
	}
	refused := func(why string) {
		t.Helper()
		for _, edge := range []*penstock{a, b} {
			rig.WaitFor(t, rig.WaitTimeout, why, func() bool {
				return edge.Post(chatPath, edge.ChatRequest(`"max_tokens":300,"sim":{"tokens":1}`)).Status == 429
			})
		}
	}
	refused("the budget is used up")
	store.FlushAll()
	rig.WaitFor(t, rig.WaitTimeout, "the store learns again what was used", func() bool {
		a.Post(chatPath, a.ChatRequest(`"max_tokens":300,"sim":{"tokens":1}`))
		b.Post(chatPath, b.ChatRequest(`"max_tokens":300,"sim":{"tokens":1}`))
		for _, key := range store.Keys() {
			if strings.Contains(key, time.Now().UTC().Format(" 2006-01")) {
				fields, err := store.HKeys(key)
				// There are five fields: one for each of the two edges, the store's creation time,
				// the sums, and the edges' counts.
				return err == nil && len(fields) == 5
			}
		}
		return false
	})
	refused("the budget is used up after the store has lost all")
}
