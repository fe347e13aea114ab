package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/observe"
)

// ledgerMetrics begin the names of what an edge with a ledger shows.
const ledgerMetrics = "penstock_ledger_"

// usageOf reads the account of an edge.
func usageOf(t *testing.T, e *rig.Edge) (r observe.UsageReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.Fetch("GET", e.Admin+"/-/usage").WantStatus(200).Body), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLedger: usage goes on after a kill and after an orderly end, and is what the engines counted. A second edge with the
// same ledger does not start.
func TestLedger(t *testing.T) {
	t.Parallel()
	p := rig.Launch(t, rig.Setup{Top: "ledger: usage.ledger", Model: `pricing: { input: "1", output: "2.5" }`})
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
		got := usageOf(t, p.Edge)
		spend := prompt + completion*5/2 // millionths: completions of the simulator are even here
		if got.Total.Calls != calls || got.Total.Prompt != prompt || got.Total.Completion != completion || got.Total.Spend.Micros != int64(spend) {
			t.Errorf("%+v, want %d calls, %d and %d tokens, %d millionths", got.Total, calls, prompt, completion, spend)
		}
	}
	for range 3 {
		call(p.Chat(`"max_tokens":10,"sim":{"tokens":10}`))
	}
	want(3)
	rig.WaitFor(t, rig.Patience, "three calls are on the disk", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `"calls":3,`)
	})
	for _, f := range observe.Families() {
		if strings.HasPrefix(f.Name, ledgerMetrics) && !strings.Contains(p.MetricsText(), "# TYPE "+f.Name+" "+string(f.Kind)+"\n") {
			t.Errorf("%s is described and not shown", f.Name)
		}
	}
	if _, errs := command(t, 1, "serve", "--config", p.Path); !strings.Contains(errs, "another edge writes "+path) {
		t.Errorf("a second edge: %s", errs)
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done
	p.Relaunch()
	want(3)
	call(p.Chat(`"max_tokens":10,"sim":{"tokens":10}`))
	p.Rest()
	p.Signal(syscall.SIGTERM) // at once: a drain loses nothing
	p.Exits(20*time.Second, 0)
	p.Relaunch()
	want(4)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rig.WantNoLeak(t, "the ledger", string(text), p.Key)
}
