package report

import (
	"bytes"
	"encoding/json"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	tokens "golang.org/x/net/html"

	"penstock/bench/benchtest"
	"penstock/bench/result"
	"penstock/config/testkit/browser"
	"penstock/config/testkit/fastset"
	"penstock/config/testkit/golden"
)

func htmlOf(t testing.TB, r *result.Result) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	plotData         = regexp.MustCompile(`(?s)<script type="application/json" id="plots">(.*?)</script>`)
	loadingAttribute = regexp.MustCompile(`(?i)(\s(src|href|srcset|action|data|poster)\s*=\s*["']|@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|importScripts|<link|<img|<iframe)`)
	tag              = regexp.MustCompile(`<[^>]*>`)
)

func TestReportNeedsNoNetwork(t *testing.T) {
	html := htmlOf(t, benchtest.FullResult(t))
	if m := loadingAttribute.FindStringIndex(html); m != nil {
		t.Errorf("the page loads something: …%s…", html[max(0, m[0]-60):min(len(html), m[1]+60)])
	}
	if !strings.Contains(html, `content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"`) {
		t.Error("no policy forbids the page to load anything")
	}
	if strings.Contains(html, "alert(\"x\")") || strings.Contains(html, "<script>alert") {
		t.Error("a name in the result became a script")
	}
	if !strings.Contains(html, "Copyright (c) 2022 Leon Sorokin") {
		t.Error("the licence of the plot library is not with it")
	}
	if n := len(html); n > 400<<10 {
		t.Errorf("the page has %d bytes", n)
	}
}

// TestHostileNames checks that hostile names of models, engines and stages do not change the
// elements of a report, and that the report shows these names.
func TestHostileNames(t *testing.T) {
	named := func(name string) string {
		r := benchtest.FullResult(t)
		r.ModelID, r.Penstock.Target.BaseURL, r.Penstock.Target.Engine = name, name, name
		r.Penstock.Command = []string{name}
		for _, parts := range []map[string]*result.Summary{r.Penstock.ByDialect, r.Penstock.ByUpstream} {
			for _, all := range slices.Collect(maps.Values(parts)) {
				clear(parts)
				parts[name] = all
			}
		}
		return htmlOf(t, r)
	}
	want := elements(named("plain"))
	for _, name := range []string{
		`"><script>alert(1)</script>`, "</script><script>alert(1)</script>", "</style><img src=x onerror=alert(1)>", "]]></pre><!--",
		`' onmouseover='alert(1)`, "a\x00b", "\u202egpj\u2066", "\u2028\u2029", "{{.JS}}", "\xff\xfe<b",
	} {
		page := named(name)
		if got := elements(page); !slices.Equal(got, want) {
			t.Errorf("%q changes the markup: %d elements in place of %d", name, len(got), len(want))
		}
		if text := html.UnescapeString(page); !strings.Contains(text, "<h1>"+strings.ReplaceAll(name, "\x00", "\uFFFD")+"</h1>") {
			t.Errorf("%q is not shown", name)
		}
		if m := plotData.FindStringSubmatch(page); m == nil || !json.Valid([]byte(m[1])) {
			t.Errorf("%q breaks the data of the plots", name)
		}
	}
}

// elements lists the elements on a page. Each entry includes the attribute names.
func elements(page string) (out []string) {
	for z := tokens.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case tokens.ErrorToken:
			return out
		case tokens.TextToken:
		default:
			token := z.Token()
			one := token.Type.String() + " " + token.Data
			for _, a := range token.Attr {
				one += " " + a.Key
			}
			out = append(out, one)
		}
	}
}

func TestReportData(t *testing.T) {
	html := htmlOf(t, benchtest.FullResult(t))
	m := plotData.FindStringSubmatch(html)
	if m == nil {
		t.Fatal("no data for plots")
	}
	var all []plot
	if err := json.Unmarshal([]byte(m[1]), &all); err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	for _, p := range all {
		groups[p.Group]++
		for _, l := range p.Lines {
			if len(l.Y) != len(p.X) {
				t.Errorf("%s, %s: %d values for %d points", p.Title, l.Label, len(l.Y), len(p.X))
			}
		}
		for i := 1; i < len(p.X); i++ {
			if p.X[i] < p.X[i-1] {
				t.Errorf("%s: x goes back at %d", p.Title, i)
			}
		}
		if p.Group == "spread" {
			last := p.Lines[0].Y[len(p.X)-1]
			if *last < 0.995 {
				t.Errorf("%s ends at %v", p.Title, *last)
			}
		}
	}
	if groups["load"] != 5 || groups["time"] != 8 || groups["spread"] != 3 || groups["engine"] != 2 {
		t.Errorf("plots = %v, want load 5, time 8, spread 3, engine 2", groups)
	}
	// A closed loop has no schedule, and a single stage has no range of loads to plot.
	one := benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 6, TTFT: 100, ITL: 20}.Build(t)
	one.Penstock.Load.Mode = "closed"
	for _, p := range allPlots(one.Penstock) {
		if p.Group == "load" || strings.Contains(p.Title, "schedule") || len(p.Lines) > 1 && p.Lines[1].Label == "from schedule" {
			t.Errorf("a closed loop has a plot %q with %d lines", p.Title, len(p.Lines))
		}
	}
}

// TestReportReadsWithoutScript checks the text on the page for screen readers and for readers
// without JavaScript.
func TestReportReadsWithoutScript(t *testing.T) {
	for name, r := range map[string]*result.Result{
		"full":    benchtest.FullResult(t),
		"invalid": benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 6, TTFT: 100, ITL: 20, Invalid: "the client's processor was busy for 97 % of the time"}.Build(t),
	} {
		html := htmlOf(t, r)
		html = html[strings.Index(html, "<main>"):strings.Index(html, "<footer>")]
		var text strings.Builder
		for l := range strings.SplitSeq(tag.ReplaceAllString(strings.ReplaceAll(html, "</td>", " |"), " "), "\n") {
			if l = strings.Join(strings.Fields(l), " "); l != "" {
				text.WriteString(l + "\n")
			}
		}
		golden.CompareFile(t, "testdata/"+name+".txt", []byte(text.String()))
	}
}

// TestReportInTheTerminal checks the text of the report that a run prints.
func TestReportInTheTerminal(t *testing.T) {
	var text bytes.Buffer
	if err := WriteText(&text, benchtest.FullResult(t)); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/terminal.txt", text.Bytes())
}

// TestReportInBrowser checks how a browser draws the page.
func TestReportInBrowser(t *testing.T) {
	fastset.SkipIfShort(t, "the report in a browser")
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(htmlOf(t, benchtest.FullResult(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, view := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"light", 1280, 2400, false}, {"dark", 1280, 2400, true}, {"phone", 390, 844, false}} {
		t.Run(view.name, func(t *testing.T) {
			tab := browser.OpenTab(t, view.width, view.height, view.dark)
			var mu sync.Mutex
			var asked, errs []string
			err := chromedp.Listen(tab, func(ev any) {
				mu.Lock()
				defer mu.Unlock()
				switch ev := ev.(type) {
				case *network.EventRequestWillBeSent:
					if !strings.HasPrefix(ev.Request.URL, "file://") && !strings.HasPrefix(ev.Request.URL, "data:") {
						asked = append(asked, ev.Request.URL)
					}
				case *runtime.EventExceptionThrown:
					errs = append(errs, ev.ExceptionDetails.Text)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := chromedp.Call(tab, network.Enable, network.EnableParams{}); err != nil {
				t.Fatal(err)
			}
			if err := chromedp.Do(tab, chromedp.Navigate("file://"+path), chromedp.WaitReady("html[data-drawn]")); err != nil {
				t.Fatal(err)
			}
			type picture struct {
				Plots    int    `json:"plots"`
				Wide     int    `json:"wide"`
				Tall     int    `json:"tall"`
				Blank    int    `json:"blank"`
				Legends  int    `json:"legends"`
				Ink      string `json:"ink"`
				Paper    string `json:"paper"`
				Overflow bool   `json:"overflow"`
				Mute     int    `json:"mute"`  // number of charts without a description
				Stuck    int    `json:"stuck"` // number of tables that cannot be scrolled with the keyboard
				// text with a contrast below 4.5, and lines with a contrast below 3
				Pale []string `json:"pale"`
			}
			// An empty canvas has only transparent pixels.
			drawn, err := chromedp.Run(tab, chromedp.Evaluate[picture](`(() => {
				const all = [...document.querySelectorAll(".plot canvas")];
				const inked = (c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v, i) => i % 4 === 3 && v > 0);
				return {
					plots: all.length, wide: Math.min(...all.map((c) => c.clientWidth)), tall: Math.min(...all.map((c) => c.clientHeight)),
					blank: all.filter((c) => !inked(c)).length, legends: document.querySelectorAll(".u-legend .u-series").length,
					ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor,
					overflow: document.documentElement.scrollWidth > innerWidth,
					mute: all.filter((c) => c.getAttribute("role") !== "img" || !(c.getAttribute("aria-label").length > 40)).length,
					stuck: [...document.querySelectorAll(".scroll")].filter((s) => s.tabIndex !== 0 || !s.getAttribute("aria-label")).length,
					pale: pale(),
				};
				function pale() {
					const light = (c) => c.map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
					const rgb = (text) => text.startsWith("#") ? [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)) : text.match(/[\d.]+/g).map(Number);
					const contrast = (a, b) => { const [x, y] = [light(rgb(a).slice(0, 3)), light(rgb(b).slice(0, 3))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
					const under = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgb(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
					const out = new Set();
					for (const e of document.querySelectorAll("main *")) {
						if (e.offsetParent && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) && contrast(getComputedStyle(e).color, under(e)) < 4.5) out.add(e.tagName + "." + e.className);
					}
					const root = getComputedStyle(document.documentElement), of = (name) => root.getPropertyValue(name).trim();
					for (let i = 1; i <= 5; i++) if (contrast(of("--tone" + i), of("--paper")) < 3) out.add("tone" + i);
					return [...out];
				}
			})()`))
			if err != nil {
				t.Fatal(err)
			}
			if drawn.Plots != 18 || drawn.Blank != 0 || drawn.Wide < 300 || drawn.Tall < 100 || drawn.Legends < 40 {
				t.Errorf("drawn = %+v, want 18 plots, none blank, with legends", drawn)
			}
			if drawn.Mute > 0 || drawn.Stuck > 0 || len(drawn.Pale) > 0 {
				t.Errorf("%d pictures without words, %d tables out of reach of keys, too pale: %v", drawn.Mute, drawn.Stuck, drawn.Pale)
			}
			if drawn.Overflow {
				t.Error("the page is wider than the window")
			}
			if dark := drawn.Paper == "rgb(17, 20, 24)"; dark != view.dark || drawn.Ink == drawn.Paper {
				t.Errorf("ink %s on paper %s", drawn.Ink, drawn.Paper)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(asked) > 0 || len(errs) > 0 {
				t.Errorf("requests %v, errors %v", asked, errs)
			}
		})
	}
}

// TestReportShowsLoneSamples checks that a plot shows a run in which responses arrive only every
// other second. No two samples are adjacent, so lines alone would show nothing.
func TestReportShowsLoneSamples(t *testing.T) {
	r := benchtest.SyntheticResult{Seed: 1, Requests: 60, Seconds: 30, TTFT: 100, ITL: 20}.Build(t)
	for _, m := range r.Penstock.Series.Latency {
		for _, column := range m {
			for i := range column {
				if i%2 == 1 {
					column[i] = nil
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(htmlOf(t, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := browser.OpenTab(t, 1280, 2400, false)
	if err := chromedp.Do(tab, chromedp.Navigate("file://"+path), chromedp.WaitReady("html[data-drawn]")); err != nil {
		t.Fatal(err)
	}
	type plotInk struct {
		Title string `json:"title"`
		Ink   int    `json:"ink"`
	}
	// Axes, grid and marks are grey. Only data is coloured.
	drawn, err := chromedp.Run(tab, chromedp.Evaluate[[]plotInk](`[...document.querySelectorAll('.plots[data-group="time"] .plot')].map((box) => {
		const c = box.querySelector("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let ink = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200 && Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 70) ink++;
		return { title: box.querySelector("h3").textContent, ink };
	})`))
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) != 8 {
		t.Fatalf("plots over time: %+v", drawn)
	}
	for _, p := range drawn {
		if p.Ink < 100 { // the plot shows three percentiles for each of fifteen seconds
			t.Errorf("%s: %d coloured pixels", p.Title, p.Ink)
		}
	}
}

// TestSweepPlot checks that the closed loops and rates of a sweep share one axis. Closed loops
// without rates are plotted over their concurrency.
func TestSweepPlot(t *testing.T) {
	num := func(v float64) *float64 { return &v }
	stage := func(concurrency int, rate, achieved float64) result.Stage {
		st := result.Stage{AchievedRate: num(achieved), Summary: result.Summary{Completed: 100, Latency: map[string]*result.Distribution{result.TTFT: benchtest.EqualLatencies(100, 10)}}}
		if concurrency > 0 {
			st.Concurrency = &concurrency
		} else {
			st.Rate = &rate
		}
		return st
	}
	for unit, c := range map[string]struct {
		stages []result.Stage
		x      []float64
	}{
		"requests/s":       {[]result.Stage{stage(1, 0, 5), stage(64, 0, 40), stage(0, 16, 15.5), stage(0, 28, 28)}, []float64{5, 15.5, 28, 40}},
		"requests at once": {[]result.Stage{stage(1, 0, 5), stage(4, 0, 18)}, []float64{1, 4}},
	} {
		list := loadPlots(&result.Penstock{Stages: c.stages})
		if len(list) == 0 || list[0].XUnit != unit || !slices.Equal(list[0].X, c.x) {
			t.Errorf("%s: %+v, want %v", unit, list, c.x)
		}
	}
}
