package documents

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var (
	alertHeading = regexp.MustCompile(`(?m)^### (Penstock\w+)\n\n(.+)$`)
	ownAddress   = regexp.MustCompile(`projectURL\s+= "([^"]+)"`)
	byClause     = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
	aggregates   = regexp.MustCompile(`\b(?:sum|min|max|count|avg)\b`)
	legendLabel  = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
)

// TestRunbooks checks that each alert links to a separate heading in the troubleshooting page with
// text below it, and that every heading belongs to an alert.
func TestRunbooks(t *testing.T) {
	t.Parallel()
	const page = "proxy/troubleshooting.md"
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".deploy/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	project := ownAddress.FindStringSubmatch(read(t, ".tools/release/owner.go"))[1]
	headings, known := []string{}, anchors(t, page)
	for _, m := range alertHeading.FindAllStringSubmatch(read(t, page), -1) {
		headings = append(headings, m[1])
	}
	var alerts []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts = append(alerts, r.Alert)
			url := r.Annotations["runbook_url"]
			anchor, found := strings.CutPrefix(url, project+"/blob/main/"+page+"#")
			if !found || anchor != strings.ToLower(r.Alert) || !slices.Contains(known, anchor) {
				t.Errorf("%s: runbook_url %q does not lead to its heading in %s", r.Alert, url, page)
			}
		}
	}
	if !slices.Equal(alerts, headings) {
		t.Errorf("the alerts are\n%q, and the page has a text for\n%q", alerts, headings)
	}
}

type panel struct {
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

// TestDashboardLegends checks that legends distinguish the series of a query by the labels that the
// query returns, and that panels do not overlap.
func TestDashboardLegends(t *testing.T) {
	t.Parallel()
	var board struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, ".deploy/grafana.json")), &board); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	for _, p := range board.Panels {
		for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Errorf("%s lies over %q or beyond the board's width", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "timeseries" {
			continue
		}
		for _, q := range p.Targets {
			var shown []string
			for _, m := range legendLabel.FindAllStringSubmatch(q.LegendFormat, -1) {
				shown = append(shown, m[1])
			}
			kept := []string{}
			if m := byClause.FindStringSubmatch(q.Expr); m != nil {
				kept = slices.DeleteFunc(strings.Split(m[1], ", "), func(label string) bool { return label == "le" })
			}
			slices.Sort(kept)
			slices.Sort(shown)
			switch {
			case !aggregates.MatchString(q.Expr) && !slices.Contains(shown, "instance"):
				t.Errorf("%s: %s is a line for each edge, which the legend %q does not name", p.Title, q.Expr, q.LegendFormat)
			case aggregates.MatchString(q.Expr) && !slices.Equal(kept, shown):
				t.Errorf("%s: %s keeps the labels %q, and the legend shows %q", p.Title, q.Expr, kept, shown)
			}
		}
	}
}
