package reload

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/limit"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/routing/queue"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// reloads contains a Reloader whose steps are controlled by the test. Each step waits for a
// channel. The test closes a channel if the step must not wait.
type reloads struct {
	*Reloader
	t              *testing.T
	texts          chan string   // contents of the file, one per read
	readStarted    chan struct{} // receives a value when a read starts
	commitStarted  chan struct{} // receives a value when a commit starts
	continueCommit chan struct{} // a commit waits until it receives a value here

	results chan *Result // results of the reloads started with begin
}

// variant returns the text of file n. The files differ only in a setting that affects neither keys
// nor models.
func variant(n int) string {
	return fmt.Sprintf(`
auth: none
cors: { origins: ["https://%d.example"] }
upstreams: [{ name: up, url: "http://127.0.0.1:1", engine: sim }]
models: [{ id: m, deployments: [{ upstream: up }] }]
`, n)
}

func parse(t *testing.T, text string) *config.File {
	t.Helper()
	f, problems := config.ParseValid("penstock.yaml", []byte(text), engine.KnownEngines())
	if f == nil {
		t.Fatal(problems)
	}
	return f
}

func newReloads(t *testing.T) *reloads {
	t.Helper()
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	r := &reloads{
		t: t, texts: make(chan string, 100), readStarted: make(chan struct{}, 100), commitStarted: make(chan struct{}, 100),
		continueCommit: make(chan struct{}), results: make(chan *Result, 4),
	}
	begun := time.Now()
	started := false
	r.Reloader = New(Options{
		Log: zap.NewNop(), Guard: guard.New(), Metrics: metrics.NewSet(), Set: set, Started: begun,
		Keys: &snapshot.ClientCredentialSources{Limits: limit.NewKeyUsages(16, begun), Issued: jwks.New(jwks.Options{})}, Queues: queue.New(), Public: "127.0.0.1:1",
		Draining: func() bool { return false },
		Load: func() (*config.File, config.Problems, []string) {
			r.readStarted <- struct{}{}
			f, problems := config.ParseValid("penstock.yaml", []byte(<-r.texts), engine.KnownEngines())
			return f, problems, nil
		},
		OnCommit: func(*config.File, bool) {
			if started {
				r.commitStarted <- struct{}{}
				<-r.continueCommit
			}
		},
		OnSwap: func(*config.File, bool) {}, OnRevoke: func(*auth.KeyRing) {},
	})
	if err := r.Start(parse(t, variant(0))); err != nil {
		t.Fatal(err)
	}
	started = true
	return r
}

// begin starts a reload that reads the given text. By the time another reload receives a text, this
// reload has read its file and is waiting to apply the models.
func (r *reloads) begin(source, text string) {
	go func() { r.results <- r.Reload(Request{Source: source}) }()
	<-r.readStarted
	r.texts <- text
}

func (r *reloads) run() {
	ctx, stop := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.t.Cleanup(func() {
		stop()
		<-ended
	})
}

// TestSameFileReadAgain checks that an operator's reload is not delayed by other reloads that read
// the same file. Otherwise, frequent signals could delay it forever.
func TestSameFileReadAgain(t *testing.T) {
	r := newReloads(t)
	r.begin(sourceFile, variant(1))
	// All other reloads are waiting; each of them has read its file before the next one starts to
	// read.
	<-r.commitStarted
	r.begin(SourceRequest, variant(2))
	r.begin(sourceSignal, variant(2))
	r.begin(sourceFile, variant(2))
	close(r.continueCommit)
	for range 4 {
		select {
		case res := <-r.results:
			if !res.OK {
				t.Errorf("the reload by %s: %v", res.Source, res.Problems)
			}
		case <-r.readStarted:
			t.Fatal("the files were read again, although they had not changed")
		}
	}
	if got := r.RunningSnapshot().Version; got != 3 {
		t.Errorf("version %d runs, want 3", got)
	}
}

// TestNewerFileReadMeanwhile checks that if a newer file is read while an operator's reload is
// waiting, the operator gets the result for the newest file.
func TestNewerFileReadMeanwhile(t *testing.T) {
	r := newReloads(t)
	r.begin(sourceFile, variant(1))
	<-r.commitStarted
	r.begin(SourceRequest, variant(2))
	r.begin(sourceSignal, variant(3))
	r.begin(sourceSignal, variant(3)) // when this reload reads, the previous reload has read its file
	close(r.continueCommit)
	<-r.readStarted // the operator's reload has started to read
	r.texts <- variant(3)
	for (<-r.results).Source != SourceRequest {
	}
	if got := r.RunningSnapshot().Config.CORS.Origins[0]; got != "https://3.example" {
		t.Errorf("%s runs when the operator's reload has ended", got)
	}
}

// TestBack checks that the previous configuration can be restored once, and that revoked keys are
// not restored.
func TestBack(t *testing.T) {
	r := newReloads(t)
	close(r.continueCommit)
	text := func(origin, key string) string {
		return fmt.Sprintf("cors: { origins: [%q] }\nkeys: [{ id: %s, hash: \"sha256:%064d\" }]\n", "https://"+origin, key, len(key)) +
			"upstreams: [{ name: up, url: \"http://127.0.0.1:1\", engine: sim }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
	}
	back := Request{Source: SourceRequest, Force: true, Back: true}
	if res := r.Reload(back); res.OK || res.Version != 1 {
		t.Errorf("before the first reload: %+v", res)
	}
	if last := r.LastResult(); last != nil {
		t.Errorf("it counts as a refused file: %+v", last)
	}
	for _, next := range []string{text("a.example", "old"), text("b.example", "old"), text("b.example", "longer")} {
		r.texts <- next
		if res := r.Reload(Request{Source: SourceRequest, Force: true}); !res.OK {
			t.Fatalf("Reload = %+v, want OK", res)
		}
	}
	dry := back
	dry.DryRun = true
	if res := r.Reload(dry); !res.OK || len(res.Changes) != 1 || r.RunningSnapshot().Config.CORS.Origins[0] != "https://b.example" {
		t.Errorf("only told: %+v", res)
	}
	res := r.Reload(back)
	f := r.RunningSnapshot().Config
	if !res.OK || f.CORS.Origins[0] != "https://a.example" || len(f.Keys) != 1 || f.Keys[0].ID != "longer" {
		t.Errorf("Reload of the file before = %+v with origins %v and keys %v; want https://a.example and the key longer", res, f.CORS.Origins, f.Keys)
	}
	if res := r.Reload(back); res.OK || res.Version != r.RunningSnapshot().Version || len(res.Problems) != 1 {
		t.Errorf("a second time: %+v", res)
	}
	r.texts <- text("b.example", "longer") // the file still contains the rejected text
	if res := r.Reload(Request{Source: SourceRequest, Force: true}); !res.OK || len(res.Changes) != 1 {
		t.Errorf("the file again: %+v", res)
	}
	if res := r.Reload(back); !res.OK || r.RunningSnapshot().Config.CORS.Origins[0] != "https://a.example" {
		t.Errorf("back from it: %+v", res)
	}
}

// TestTriggersMerge checks that all triggers that arrive during a read cause only one more read.
func TestTriggersMerge(t *testing.T) {
	r := newReloads(t)
	close(r.continueCommit)
	r.run()
	r.Trigger(sourceSignal)
	<-r.readStarted
	for range 50 {
		r.Trigger(sourceSignal)
		// This is long enough to handle each trigger individually, which must not happen.
		time.Sleep(time.Millisecond)
	}
	r.texts <- variant(1)
	<-r.readStarted // this read handles all 50 triggers
	for range cap(r.texts) - 1 {
		r.texts <- variant(2)
	}
	// Reads happen in order, so all triggers have been handled.
	if res := r.Reload(Request{Source: SourceRequest}); !res.OK {
		t.Error(res.Problems)
	}
	if further := len(r.readStarted); further != 1 {
		t.Errorf("the files were read %d times after 50 triggers, want once, and once for the operator", 1+further)
	}
}

// TestAddressesBesideFile checks that new addresses take effect even if a reload of an unchanged
// file is triggered at the same time.
func TestAddressesBesideFile(t *testing.T) {
	r := newReloads(t)
	r.texts <- variant(0)
	r.Trigger(sourceSignal)
	r.Trigger(SourceUpstreamAddresses)
	close(r.continueCommit)
	r.run()
	<-r.readStarted
	<-r.commitStarted
}

// TestAddressesMerge checks that address changes are merged. All changes that arrive during a slow
// reload must cause only one more reload. A change after the start of that reload must cause
// another reload.
func TestAddressesMerge(t *testing.T) {
	r := newReloads(t)
	r.run()
	r.Trigger(SourceUpstreamAddresses)
	<-r.commitStarted // the slow reload has started to commit
	trigger := func() {
		r.Trigger(SourceUpstreamAddresses)
		for len(r.addresses.triggers) > 0 { // wait until Run has received the trigger
			time.Sleep(time.Millisecond)
		}
	}
	for range 50 {
		trigger()
	}
	r.continueCommit <- struct{}{}
	<-r.commitStarted // handles all 50 changes, except the last one if it arrived later
	trigger()
	close(r.continueCommit)
	<-r.commitStarted
	if res := r.Reload(Request{Source: SourceUpstreamAddresses}); !res.OK { // reloads are in order
		t.Error(res.Problems)
	}
	if further := len(r.commitStarted) - 1; further > 1 {
		t.Errorf("%d reloads more than two after 50 changes and one", further)
	}
}

// TestWarnings checks that a file that has a warning is applied, and that the result contains the
// warning and its line number. If the same file is read again, the warning is not logged again.
func TestWarnings(t *testing.T) {
	r := newReloads(t)
	core, logged := observer.New(zap.WarnLevel)
	r.opts.Log = zap.New(core)
	close(r.continueCommit)
	r.begin(SourceRequest, variant(1))
	if res := <-r.results; !res.OK || len(res.Warnings) > 0 {
		t.Errorf("result = %+v, want OK without a warning", res)
	}
	for _, source := range []string{SourceRequest, sourceFile} {
		r.begin(source, strings.Replace(variant(2), "engine: sim", "engine: sim, probe: { interval: 200ms }", 1))
		res := <-r.results
		if !res.OK || len(res.Warnings) != 1 || !strings.HasPrefix(res.Warnings[0], "penstock.yaml:4:84: warning: ") {
			t.Errorf("result = %+v, want OK with one warning at 4:84", res)
		}
	}
	if n := logged.FilterMessage(ConfigWarningMessage).Len(); n != 1 {
		t.Errorf("the warning was logged %d times, want once", n)
	}
}
