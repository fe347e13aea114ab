package statuspage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"penstock/config/testkit/browser"
	"penstock/proxy/e2e/rig"
)

// axe returns the source of axe-core, which checks the accessibility of a page.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PENSTOCK_AXE")
	switch {
	case path == "" && os.Getenv("CI") != "":
		t.Fatal("CI needs PENSTOCK_AXE, the path of axe.min.js from npm's axe-core")
	case path == "":
		t.Skip("SKIPPED: PENSTOCK_AXE does not name axe.min.js (npm pack axe-core)")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// violations returns axe-core's findings for the page in a tab, one per line.
func violations(t *testing.T, tab context.Context, program string) string {
	t.Helper()
	if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](program+";true")); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(tab, chromedp.Evaluate[string](`axe.run().then(r => JSON.stringify([r.passes.length, ...r.violations.map(v =>
		v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(" | "))]))`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	var passes int
	said := []any{&passes}
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) == 0 || json.Unmarshal(all[0], said[0]) != nil || passes < 10 {
		t.Fatalf("%d rules hold, %v: %.300s", passes, err, text)
	}
	var lines strings.Builder
	for _, v := range all[1:] {
		fmt.Fprintf(&lines, "%s\n", v)
	}
	return lines.String()
}

// TestPagesAreAccessible checks that axe-core has no findings in the pages of an edge with problems
// and in a bench report, on a desktop and a phone, in light and dark mode.
func TestPagesAreAccessible(t *testing.T) {
	program := axe(t)
	l := startFleet(t)
	rig.WaitFor(t, rig.WaitTimeout, "a call has failed", func() bool {
		return strings.Contains(l.Fetch("GET", l.Admin+"/", "Accept: text/html", "Authorization: Bearer "+rig.AdminToken).Body, `href="/call/`)
	})
	report := filepath.Join(t.TempDir(), "report.html")
	if _, errs, code := rig.RunProgram(t, "", "bench", "run", l.URL, "--api-key", l.Key, "--model", "model-01", "-n", "10", "-o", report); code != 0 && code != 98 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	for _, view := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {1280, true}, {390, false}, {390, true}} {
		tab, _ := l.openPage(view.width, 900, view.dark)
		check := func(page string) {
			t.Helper()
			if said := violations(t, tab, program); said != "" {
				t.Errorf("%s, %d pixels, dark %v:\n%s", page, view.width, view.dark, said)
			}
		}
		l.waitExpression(tab, "the trouble", `/model-21 fails/.test(document.querySelector(".verdict").innerText) && document.querySelector("#calls tr.failed a")`)
		check("the status page")
		if _, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(document.querySelector("#calls tr.failed a").click(), true)`)); err != nil {
			t.Fatal(err)
		}
		l.waitExpression(tab, "a call", `document.querySelector(".attempts")`)
		check("a call's page")
		if err := chromedp.Do(tab, chromedp.Navigate(l.Admin+"/usage")); err != nil {
			t.Fatal(err)
		}
		check("the usage page")
		if err := chromedp.Do(tab, chromedp.Navigate(l.Admin+"/runbook#PenstockErrors")); err != nil {
			t.Fatal(err)
		}
		check("the runbook")
		tab = browser.OpenTab(t, view.width, 900, view.dark)
		if err := chromedp.Do(tab, chromedp.Navigate("file://"+report)); err != nil {
			t.Fatal(err)
		}
		check("a report")
	}
}
