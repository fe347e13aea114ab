package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"penstock/config/testkit/browser"
	"penstock/config/testkit/fastset"
)

// countNodesScript runs before the page's script. It counts the nodes that the page's script
// creates, and the rows in which that script touches nodes. Its function renew passes updates to
// the page.
const countNodesScript = `(() => {
	const size = (node) => 1 + [...(node.content || node).childNodes].reduce((n, child) => n + size(child), 0);
	let made = 0;
	const counts = (of, name, nodes) => {
		const was = of[name];
		of[name] = function (...args) { const got = was.apply(this, args); made += nodes(got); return got; };
	};
	counts(Document.prototype, "createElement", () => 1);
	counts(Node.prototype, "cloneNode", size);
	const inner = Object.getOwnPropertyDescriptor(Element.prototype, "innerHTML");
	Object.defineProperty(Element.prototype, "innerHTML", { ...inner, set(text) { inner.set.call(this, text); made += size(this) - 1; } });
	let source;
	window.EventSource = class extends EventTarget { constructor() { super(); source = this; } };
	const row = (node) => { const e = node.closest ? node : node.parentNode; return e?.closest("[id]")?.id ?? node.nodeName; };
	window.renew = (sections) => {
		const seen = new MutationObserver(() => {}), touched = new Set();
		seen.observe(document, { childList: true, characterData: true, attributes: true, subtree: true });
		made = 0;
		source.dispatchEvent(new MessageEvent("sections", { data: JSON.stringify({ at: "12:00:00", sections }) }));
		for (const m of seen.takeRecords()) {
			const moved = [...m.addedNodes, ...m.removedNodes].map((n) => n.id).filter(Boolean);
			const list = m.type === "childList" && m.target.hasAttribute("data-rows");
			for (const id of list ? moved : [row(m.target)]) if (id !== "live") touched.add(id);
		}
		seen.disconnect();
		return JSON.stringify({ made, touched: [...touched].sort() });
	};
})()`

// bigSample returns the state of an edge with fifty upstreams, thirty models, two hundred keys, a
// hundred calls and as many events.
func bigSample() *Status {
	one := sample()
	s := &Status{Now: now, Started: one.Started, Since: one.Since, Version: 3, Operable: true, Generations: one.Generations}
	for i := range 50 {
		u := one.Upstreams[0]
		u.Name = fmt.Sprintf("gpu-%02d", i)
		u.Label = u.Name
		s.Upstreams = append(s.Upstreams, u)
	}
	for i := range 30 {
		m := one.Models[1]
		m.ID = fmt.Sprintf("model-%02d", i)
		m.History.Minute.Calls = 1
		m.Targets = []Target{{Upstream: s.Upstreams[i].Label, Eligible: true}}
		s.Models = append(s.Models, m)
	}
	for i := range 200 {
		s.Keys = append(s.Keys, Key{ID: fmt.Sprintf("team-%03d", i)})
	}
	for i := range 100 {
		c := one.Calls[1]
		c.ID = fmt.Sprintf("req_%02d", i)
		s.Calls = append(s.Calls, c)
		s.Events = append(s.Events, Event{At: now, Number: 100 - i, Kind: "up", Level: LevelOK, Who: "gpu-01", Text: "is up"})
	}
	for i := range 20 {
		s.Refusals = append(s.Refusals, Reason{Code: "rate_limited", Status: 429, Key: fmt.Sprintf("team-%03d", i), Count: 1})
	}
	return s
}

// TestRenewalsTouchWhatIsNew checks that an update of an open page touches only rows whose text
// differs, and creates nodes only for new cells.
func TestRenewalsTouchWhatIsNew(t *testing.T) {
	fastset.SkipIfShort(t, "what a renewal does to the page in a browser")
	state := bigSample()
	state.SetVerdict(nil)
	body, err := state.Page()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", ContentSecurityPolicy())
		_, _ = w.Write(body)
	}))
	defer server.Close()
	tab := browser.OpenTab(t, 1280, 900, false)
	if _, err := chromedp.Call(tab, cdp.AddScriptToEvaluateOnNewDocument, cdp.AddScriptToEvaluateOnNewDocumentParams{Source: countNodesScript}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(tab, chromedp.Navigate(server.URL)); err != nil {
		t.Fatal(err)
	}
	var shown ShownPage
	if got := applyUpdates(t, tab, state, &shown); len(got.Touched) > 0 {
		t.Errorf("what the page shows already touches %v", got.Touched)
	}
	for _, c := range []struct {
		what    string
		change  func(s *Status)
		touches []string
		made    int // maximum number of created nodes
	}{
		{"nothing", func(*Status) {}, nil, 0},
		{"a second", func(s *Status) { s.Now = s.Now.Add(time.Second) }, nil, 0},
		{"an upstream's calls", func(s *Status) { s.Upstreams[7].History.Failed++ }, []string{"upstream-gpu-07"}, 8},
		{"the calls of a minute", func(s *Status) { s.Total.Minute.Calls++ }, []string{"number-calls"}, 8},
		{"a tile, a cell of a model and one of a key", func(s *Status) {
			s.Total.Minute.Calls++
			s.Models[3].History.Minute.Calls++
			s.Keys[5].Today.Calls++
		}, []string{"key-team-005", "model-model-03", "number-calls"}, 16},
		{"an event", func(s *Status) {
			s.Events = append([]Event{{At: now, Number: 101, Kind: "up", Who: "gpu-02", Text: "is up"}}, s.Events...)
		}, []string{"event-101"}, 16},
		{"a refusal", func(s *Status) { s.Refusals[9].Count++ }, []string{"refusal-rate_limited   team-009  "}, 4},
		{"a new call, and one that falls off the end", func(s *Status) {
			c := s.Calls[0]
			c.ID = "req_new"
			s.Calls = append([]Call{c}, s.Calls[:99]...)
		}, []string{"req_99", "req_new"}, 80},
		{"a call that goes on", func(s *Status) { s.Calls[4].Duration = 5000 }, []string{"req_03"}, 4},
		{"connections", func(s *Status) { s.Connections++ }, []string{"conf-now"}, 4},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.change(state)
			if got := applyUpdates(t, tab, state, &shown); !slices.Equal(got.Touched, c.touches) || got.Made > c.made {
				t.Errorf("touches %.300v and makes %d nodes, want %v and at most %d", got.Touched, got.Made, c.touches, c.made)
			}
		})
	}
	names := func() (all []string) {
		t.Helper()
		const script = `[...document.querySelectorAll("#upstreams tbody tr")].map((r) => r.dataset.upstream + " " + r.dataset.state)`
		all, err := chromedp.Run(tab, chromedp.Evaluate[[]string](script))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	t.Run("one that is down goes up, and back to its place, past rows that stay", func(t *testing.T) {
		for _, as := range []string{"down", "up"} {
			state.Upstreams[30].State = as
			others := slices.DeleteFunc(applyUpdates(t, tab, state, &shown).Touched, func(id string) bool {
				return id == "upstream-gpu-30" || !strings.HasPrefix(id, "upstream-")
			})
			if at := slices.Index(names(), "gpu-30 "+as); len(others) > 0 || at != map[string]int{"down": 0, "up": 30}[as] {
				t.Errorf("%s: row %d, touches %v", as, at, others)
			}
		}
	})
	t.Run("nothing moves under the pointer", func(t *testing.T) {
		point := func(selector string) {
			t.Helper()
			script := `(r => { r.scrollIntoView({block: "center"}); r = r.getBoundingClientRect(); return [r.x + 9, r.y + 9]; })(document.querySelector("` + selector + `"))`
			at, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](script))
			if err != nil {
				t.Fatal(err)
			}
			if err := chromedp.Do(tab, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1])); err != nil {
				t.Fatal(err)
			}
		}
		point("#upstream-gpu-12")
		state.Upstreams[30].State = "down"
		applyUpdates(t, tab, state, &shown)
		if at := slices.Index(names(), "gpu-30 down"); at != 30 {
			t.Errorf("gpu-30 is row %d while the pointer is among the rows", at)
		}
		point("h1")
		applyUpdates(t, tab, state, &shown)
		if at := slices.Index(names(), "gpu-30 down"); at != 0 {
			t.Errorf("gpu-30 is row %d afterwards", at)
		}
	})
}

type pageChanges struct {
	Made    int      `json:"made"`
	Touched []string `json:"touched"`
}

// applyUpdates passes the next updates to the page's script.
func applyUpdates(t *testing.T, tab context.Context, s *Status, shown *ShownPage) (got pageChanges) {
	t.Helper()
	changed, err := s.PageUpdates(shown)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	said, err := chromedp.Run(tab, chromedp.Evaluate[string]("renew("+string(text)+")"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(said), &got); err != nil {
		t.Fatal(err)
	}
	return got
}
