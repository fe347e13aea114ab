package statuspage

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"penstock/bench/sim"
	"penstock/config/testkit/browser"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests open the status page of a live edge in a real browser. They check the page while a
// model becomes full, an engine dies and recovers, and a click drains an upstream.

// live is an edge with two simulated engines of one slot each.
type live struct {
	*rig.Edge
	t *testing.T
}

func startLive(t *testing.T) *live {
	engine := sim.Options{TokenRate: 50}
	return &live{t: t, Edge: rig.Start(t, rig.Setup{Engines: []sim.Options{engine, engine}, Config: `
admin: { token: ` + rig.AdminToken + ` }
timeouts: { linger: 0s, drain: 1s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, concurrency: 1, probe: { interval: 200ms, timeout: 15s } }
  - { name: up-1, url: "{{up-1}}", engine: sim, concurrency: 1, probe: { interval: 200ms, timeout: 15s } }
models:
  - { id: llama, deployments: [{ upstream: up-0, served: sim }, { upstream: up-1, served: sim }], queue: { depth: 4, wait: 60s } }
  - { id: "<img src=x onerror=alert(1)>", deployments: [{ upstream: up-0, served: sim }] }
`}).Edge}
}

// stream opens an endless stream. If begun is true, it waits until the stream has started.
func (l *live) stream(begun bool) (leave func()) {
	body := rig.ChatBody("llama", `"stream":true,"sim":{"tokens":100000}`)
	if begun {
		s := l.OpenStream("/v1/chat/completions", body)
		if _, ok := s.Next(); !ok {
			l.t.Fatal("the stream ends before it begins")
		}
		return s.Disconnect
	}
	ctx, leave := context.WithCancel(context.Background())
	l.t.Cleanup(leave)
	go func() {
		if res, err := l.TryOpenResponse(ctx, "POST", "/v1/chat/completions", body); err == nil {
			res.Body.Close()
		}
	}()
	return leave
}

// openPage opens the page like an operator who has the token. complaints returns the browser's
// errors.
func (l *live) openPage(width, height int64, dark bool) (tab context.Context, complaints func() string) {
	tab = browser.OpenTab(l.t, width, height, dark)
	var mu sync.Mutex
	var said strings.Builder
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said.WriteString(text + "\n")
	}
	if err := chromedp.Listen(tab, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			note(ev.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			note(ev.Entry.Text)
		}
	}); err != nil {
		l.t.Fatal(err)
	}
	for _, err := range []error{
		call(tab, network.Enable, network.EnableParams{}), call(tab, runtime.Enable, cdp.Empty{}), call(tab, cdplog.Enable, cdp.Empty{}),
		call(tab, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("op:"+rig.AdminToken))}}),
		chromedp.Do(tab, chromedp.Navigate(l.Admin+"/")),
	} {
		if err != nil {
			l.t.Fatal(err)
		}
	}
	return tab, func() string {
		mu.Lock()
		defer mu.Unlock()
		return said.String()
	}
}

// call sends a command to the browser.
func call[P, R any](tab context.Context, cmd cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(tab, cmd, params)
	return err
}

// waitExpression waits until a JavaScript expression is true on the page.
func (l *live) waitExpression(tab context.Context, what, expression string) {
	l.t.Helper()
	for deadline := time.Now().Add(rig.WaitTimeout); ; time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(tab, chromedp.Evaluate[bool]("!!("+expression+")"))
		// The tab has loaded another page, which is checked next.
		if err != nil && !strings.Contains(err.Error(), "Inspected target navigated") {
			l.t.Fatalf("%s: %v", what, err)
		}
		if ok && err == nil {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.innerText"))
			l.t.Fatalf("the page does not show: %s (%s)\n%s", what, expression, text)
		}
	}
}

func TestStatusPageIsLive(t *testing.T) {
	fastset.SkipIfShort(t, "the status page in a browser")
	l := startLive(t)
	tab, complaints := l.openPage(1280, 1600, false)
	const row0, row1 = `document.querySelector('tr[data-upstream="up-0"]')`, `document.querySelector('tr[data-upstream="up-1"]')`
	l.waitExpression(tab, "that it is connected", `document.querySelector("#live.on")`)
	l.waitExpression(tab, "health", `document.querySelector(".verdict.ok") && document.body.innerText.includes("2 of 2 upstreams take calls")`)
	l.waitExpression(tab, "a hostile name as text", `document.querySelector('#models').innerText.includes("<img src=x onerror=alert(1)>") && !document.querySelector("#models img")`)

	// A model becomes full, and one more call waits.
	leave := l.stream(true)
	l.waitExpression(tab, "one slot of two in use", `document.querySelector('[data-model="llama"] .poolrow b').innerText.startsWith("1 of 2")`)
	leaveToo := l.stream(true)
	leaveThird := l.stream(false)
	l.waitExpression(tab, "the model full", `document.querySelector('[data-model="llama"] .bar.full') && document.querySelector('[data-model="llama"]').innerText.includes("full")`)
	l.waitExpression(tab, "one in the queue", `document.querySelector('[data-model="llama"] .queue').innerText.includes("1 waiting of 4") && document.querySelector("#calls").innerText.includes("queued")`)
	l.waitExpression(tab, "two streams", `[...document.querySelectorAll("#calls tr.running")].filter(r => r.innerText.includes("streaming")).length == 2`)
	l.waitExpression(tab, "tokens a second", `Number(document.querySelector('tr[data-upstream="up-0"] [data-label="Tok/s"]').innerText) > 0`)
	leaveThird()
	leave()
	leaveToo()
	l.waitExpression(tab, "that the clients left", `document.querySelectorAll("#calls tr.left").length == 3`)

	// An engine dies and recovers.
	l.Engines[0].Unlisten()
	l.Engines[0].DropConns(1, true)
	l.waitExpression(tab, "the engine down, in words", row0+`.dataset.state == "down" && `+row0+`.innerText.includes("✕ down") && document.querySelector(".verdict.out, .verdict.degraded").innerText.includes("up-0 is down")`)
	l.waitExpression(tab, "trouble in the tab's title", `/^[!✕] Penstock$/.test(document.title)`)
	l.waitExpression(tab, "what to do beside the alarm", `/What to do: .*PenstockUpstreamDown/.test(document.querySelector(".verdict").innerText) && document.querySelector('.verdict a[href="/runbook#PenstockUpstreamDown"]')`)
	if err := chromedp.Do(tab, chromedp.Click(`[data-focus="more up-1"]`)); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "that the other engine is the last one", row1+`.querySelector(".ops details").textContent.includes("No other engine takes calls for llama.")`)
	l.waitExpression(tab, "why its target is out", `document.querySelector('[data-model="llama"] .targets .gone').innerText.includes("upstream is down")`)
	if err := l.Engines[0].Relisten(); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "the engine up again", row0+`.dataset.state == "up" && document.querySelector(".verdict.ok") && document.title == "Penstock"`)

	// Updates of the page must preserve the focus, so that an upstream can be drained with the
	// keyboard.
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(document.querySelector('[data-focus="drain up-1"]').focus(), true)`)); err != nil {
		t.Fatal(err)
	}
	before, _ := chromedp.Run(tab, chromedp.Evaluate[string](`document.getElementById("live").innerText`))
	l.waitExpression(tab, "a renewal that keeps the focus", fmt.Sprintf(`document.getElementById("live").innerText != %q && document.activeElement.dataset.focus == "drain up-1"`, before))
	if err := chromedp.Do(tab, chromedp.SendKeys(`[data-focus="drain up-1"]`, " ")); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "the question before it", row1+`.dataset.mode == "ready" && `+row1+`.querySelector(".ops details[open]").innerText.includes("Take up-1 out of service?")`)
	if err := chromedp.Do(tab, chromedp.SendKeys(`[data-focus="drain now up-1"]`, " ")); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "the drain", row1+`.dataset.mode == "drain" && `+row1+`.innerText.includes("draining")`)
	if err := chromedp.Do(tab, chromedp.Click(`tr[data-upstream="up-1"] button[value="ready"]`)); err != nil {
		t.Fatal(err)
	}
	l.waitExpression(tab, "that it is back", row1+`.dataset.mode == "ready"`)
	if said := complaints(); said != "" {
		t.Errorf("the browser complains: %s", said)
	}
}

// TestStatusPageFits checks that no content overflows and that the first paint is complete, on a
// phone and a desktop, in light and dark mode, with and without the page's script.
func TestStatusPageFits(t *testing.T) {
	fastset.SkipIfShort(t, "the status page in a browser")
	l := startLive(t)
	pictures := map[bool][]byte{}
	for _, view := range []struct {
		width, height int64
		dark          bool
	}{{390, 844, false}, {1280, 900, false}, {1280, 900, true}} {
		tab, complaints := l.openPage(view.width, view.height, view.dark)
		l.waitExpression(tab, "the upstreams", `document.querySelectorAll("tr[data-upstream]").length == 2 && document.fonts.status == "loaded"`)
		out, err := chromedp.Run(tab, chromedp.Evaluate[float64](`document.documentElement.scrollWidth - innerWidth`))
		if err != nil || out > 0 {
			t.Errorf("at %d pixels the page is %v too wide (%v)", view.width, out, err)
		}
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		pictures[view.dark] = picture
		if said := complaints(); said != "" {
			t.Errorf("the browser complains: %s", said)
		}
	}
	if bytes.Equal(pictures[true], pictures[false]) {
		t.Error("dark looks like light")
	}
}
