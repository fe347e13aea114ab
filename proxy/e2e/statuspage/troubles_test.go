//go:build unix

package statuspage

import (
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

// These tests inject a fault and read the page and the log like an operator, who wants to know
// which component has a problem, why, how bad it is, and what to do.

// plantedFault is a fault, with the texts about it that are expected on the page and in the log.
type plantedFault struct {
	name  string
	setup rig.Setup
	plant func(l *live, p *rig.ProgramEdge)
	send  []string // members of the calls that each sender sends, in turn; if empty, no calls are sent
	says  string   // regular expression for the page's first sentence
	title string   // regular expression for the tab's title; if empty, the title is not checked
	todo  string   // alert that the page links to; if empty, the sentence itself says what to do
	log   []string
	mend  func(l *live, p *rig.ProgramEdge) // repairs the fault; nil if recovery would take too long
}

const (
	fewTokens   = `"sim":{"tokens":2}`
	toolsMember = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	noTools     = `status=400;message="auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`
	alarm       = `^[!✕] Penstock$`
	calm        = `^Penstock$`
	newPairOf   = `write a new pair to the paths of tls\.cert and tls\.key`
)

// fault returns a function that makes the first engine fail a share of its calls.
func fault(spec string, share float64) func(*live, *rig.ProgramEdge) {
	return func(l *live, _ *rig.ProgramEdge) { l.Engines[0].SetFault(sim.Fault{Spec: spec, Share: share}) }
}

// vllm returns a setup with engines whose profile, vllm, names the flags that they may need.
func vllm(engines int) rig.Setup {
	s := rig.Setup{Engines: make([]sim.Options, engines)}
	ups, deployments := "", ""
	for i := range s.Engines {
		ups += fmt.Sprintf("  - { name: up-%d, url: \"{{up-%d}}\", engine: vllm, probe: { timeout: 15s } }\n", i, i)
		deployments += fmt.Sprintf("{ upstream: up-%d }, ", i)
	}
	s.Config = "timeouts: { linger: 0s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n" + ups +
		"models: [{ id: sim, policy: round_robin, deployments: [" + deployments + "] }]\n"
	return s
}

// certificate returns a setup with a certificate that became valid the duration ago before now, and
// expires after the duration left.
func certificate(t *testing.T, ago, left time.Duration) rig.Setup {
	cert, key := selfsigned.NewPair(t, "edge", time.Now().Add(-ago), time.Now().Add(left))
	return rig.Setup{Top: "tls: { cert: edge.pem, key: edge.key }", Files: map[string]string{"edge.pem": cert, "edge.key": key}}
}

// renew writes a certificate that is valid for 90 days.
func renew(l *live, p *rig.ProgramEdge) {
	cert, key := selfsigned.NewPair(l.t, "edge", time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
	p.Write("edge.pem", cert)
	p.Write("edge.key", key)
}

// senders is how many calls run at the same time while a fault is present.
const senders = 4

// endlessMembers requests a stream that outlasts the test.
const endlessMembers = `"stream":true,"sim":{"tokens":100000}`

func faults(t *testing.T) []plantedFault {
	const day = 24 * time.Hour
	two := []sim.Options{{TokenRate: 50}, {TokenRate: 50}} // slow enough that more than one call runs at a time
	frozen := rig.StartProcess(t, "sim", "--listen=127.0.0.1:0", "--token-rate=50")
	t.Cleanup(func() { frozen.Signal(syscall.SIGCONT) })
	url := frozen.WaitOutput(`(http://127\.0\.0\.1:\d+)`)[1]
	return []plantedFault{
		{
			name: "an engine fails one in three, beside a good one", setup: rig.Setup{Engines: two},
			plant: fault("status=500", 0.34), send: []string{fewTokens}, title: alarm,
			says: `^Degraded: up-0 fails \d+ % of what it is asked \(\d+ of \d+ in the last minute, \d+ of them hidden by retries; status 500\).*: see its log, or take it out \(penstock drain up-0\)`,
			todo: "PenstockUpstreamFails", log: []string{`"event":"edge_degraded"`, "up-0 fails", "penstock explain PenstockUpstreamFails"},
		},
		{
			// Each sender has two successes between two failures, so there are never five failures in
			// a row and the breaker stays closed.
			name: "an engine fails one in three, alone", send: []string{fewTokens, fewTokens, `"sim":{"fault":"status=500"}`}, title: alarm,
			says: `^Degraded: sim fails \d+ % of its calls \(\d+ of \d+ in the last minute\), all on up-0 \(status 500\)`,
			todo: "PenstockErrors", log: []string{`"event":"edge_degraded"`, "all on up-0 (status 500)", "penstock explain PenstockErrors", `"engine_status":500`},
		},
		{
			name: "an engine refuses tools that the other one takes", setup: vllm(2),
			plant: fault(noTools, 1), send: []string{fewTokens + "," + toolsMember},
			says: `up-0 refuse[sd] .*with tools \(status 400.*: start it with --enable-auto-tool-choice --tool-call-parser NAME`,
			log:  []string{`"event":"upstream_`, `"upstream":"up-0"`, `"feature":"tools"`, `"remedy":"start it with --enable-auto-tool-choice`},
		},
		{
			name: "the only engine refuses tools", setup: vllm(1), plant: fault(noTools, 1), send: []string{fewTokens + "," + toolsMember}, title: calm,
			says: `Look at: up-0 refused \d+ of its last \d+ calls with tools \(status 400\), and no other engine of its model can be compared: are the calls right\? Otherwise start it with --enable-auto-tool-choice`,
			log:  []string{`"event":"upstream_refuses"`, `"upstream":"up-0"`, `"remedy":"start it with --enable-auto-tool-choice`},
		},
		{
			name: "a certificate with four days left of ninety", setup: certificate(t, 86*day, 4*day), title: alarm, mend: renew,
			says: `^Degraded: the certificate of the public listener \(tls\) ends in 3 d 23 h \(.*\): ` + newPairOf,
			todo: "PenstockCertificateExpires", log: []string{`"event":"edge_degraded"`, "ends in 3 d", "tls.cert", "penstock explain PenstockCertificateExpires"},
		},
		{
			name: "a certificate of four days", setup: certificate(t, time.Minute, 4*day), title: calm, mend: renew,
			says: `^Healthy: .* Look at: the certificate of the public listener \(tls\) ends in 3 d 23 h \(.*\): ` + newPairOf,
			todo: "PenstockCertificateExpires", log: []string{"edge.pem ends on ", "replace it in time"},
		},
		{
			name: "a key over its budget", setup: rig.Setup{Key: "limits: { tokens_per_day: 400 }"}, send: []string{`"max_tokens":20,"sim":{"tokens":20}`}, title: calm,
			says: `^Healthy: .* Keys: the key tester is over its tokens per day \(\d+ of 400\), \d+ calls? refused in the last minute, until .* UTC: raise keys\[\]\.limits\.tokens_per_day, or wait`,
			log:  []string{`"event":"key_over_limit"`, `"key":"tester"`, `"limit":"tokens_per_day"`, `"remedy":"raise keys[].limits.tokens_per_day, or wait`},
		},
		{
			name:  "an engine is stopped, beside a good one",
			setup: rig.Setup{Engines: []sim.Options{{TokenRate: 50}}, Fakes: []string{url}, Model: "policy: round_robin", Upstream: "probe: { interval: 500ms, timeout: 500ms }"},
			plant: func(l *live, _ *rig.ProgramEdge) {
				for range 2 { // one call for each engine
					l.OpenStream("/v1/chat/completions", l.ChatRequest(endlessMembers)).Next()
				}
				frozen.Signal(syscall.SIGSTOP)
			},
			says: `fake-0 does not answer its probes, and nothing has come from it for \d+ s: it is busy or has stopped`,
			todo: "PenstockUpstreamStalled", log: []string{`"event":"upstream_suspect"`, `"upstream":"fake-0"`, "look at its process and its log"},
			mend: func(*live, *rig.ProgramEdge) { frozen.Signal(syscall.SIGCONT) },
		},
		{
			name: "a full queue", setup: rig.Setup{Engines: []sim.Options{{TokenRate: 50}}, Upstream: "concurrency: 1", Model: "queue: { depth: 1, wait: 60s }"},
			plant: func(l *live, _ *rig.ProgramEdge) {
				l.OpenStream("/v1/chat/completions", l.ChatRequest(endlessMembers)).Next()
				l.send(endlessMembers)
			},
			send: []string{fewTokens}, title: alarm,
			says: `^(Degraded|Failing): sim is full for \d+ % of its calls \(\d+ of \d+ in the last minute\): its only slot is in use, most calls are of tester`,
			todo: "PenstockFull", log: []string{"sim is full for ", "penstock explain PenstockFull"},
		},
	}
}

// send sends calls with these members, in turn, one after another until the test ends. If the
// stream is endless, send sends only one call.
func (l *live) send(members ...string) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.t.Cleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil && len(members) > 0; i++ {
			body := fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"call %d"}],%s}`, i, members[i%len(members)])
			if res, err := l.TryOpenResponse(ctx, "POST", "/v1/chat/completions", body); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
	}()
}

// TestPlantedFaultsAreSaid checks, for each fault, that the page's first sentence and the log name
// the component, the cause, the severity and the remedy. The link next to an alert must lead to the
// alert's text. Once the fault is repaired, the sentence must disappear.
func TestPlantedFaultsAreSaid(t *testing.T) {
	fastset.SkipIfShort(t, "planted faults on the status page in a browser")
	for _, c := range faults(t) {
		t.Run(c.name, func(t *testing.T) {
			c.setup.Untidy, c.setup.Admin = true, "token: "+rig.AdminToken
			p := rig.StartProgram(t, c.setup)
			l := &live{t: t, Edge: p.Edge}
			tab, complaints := l.openPage(1280, 900, false)
			l.waitExpression(tab, "that it is connected", `document.querySelector("#live.on")`)
			if c.plant != nil {
				c.plant(l, p)
			}
			for range senders {
				l.send(c.send...)
			}
			l.waitExpression(tab, "the fault", fmt.Sprintf(`%s.test(document.querySelector(".verdict > span:last-child").innerText)`, "/"+strings.ReplaceAll(c.says, "/", `\/`)+"/"))
			l.waitExpression(tab, "a sign in the tab's title for an alarm alone", fmt.Sprintf(`/(?:%s)/.test(document.title)`, c.title))
			rig.WaitFor(t, rig.WaitTimeout, "the log says it", func() bool {
				text := p.Log.String()
				for _, want := range c.log {
					if !strings.Contains(text, want) {
						return false
					}
				}
				return true
			})
			if c.mend != nil {
				defer func() {
					c.mend(l, p)
					l.waitExpression(tab, "that it is mended", `document.querySelector(".verdict.ok") && !/Look at/.test(document.querySelector(".verdict").innerText)`)
				}()
			}
			if c.todo != "" {
				link := fmt.Sprintf(`.verdict a[href="/runbook#%s"]`, c.todo)
				l.waitExpression(tab, "what to do", fmt.Sprintf(`document.querySelector(%q)`, link))
				if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](fmt.Sprintf(`(document.querySelector(%q).click(), true)`, link))); err != nil {
					t.Fatal(err)
				}
				l.waitExpression(tab, "its text", fmt.Sprintf(`location.pathname == "/runbook" && document.querySelector(":target")?.id == %q && document.querySelector(":target + p").innerText.length > 50`, c.todo))
				if err := chromedp.Do(tab, chromedp.Navigate(l.Admin+"/")); err != nil {
					t.Fatal(err)
				}
			}
			if said := complaints(); said != "" {
				t.Errorf("the browser complains: %s", said)
			}
		})
	}
}
