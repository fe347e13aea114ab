package prometheus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// expectedAlerts lists the alerts whose conditions this test creates. These alerts must at least be
// pending.
var expectedAlerts = []string{"PenstockModelWithoutEngine", "PenstockUpstreamDown", "PenstockErrors", "PenstockFull"}

var (
	selector   = regexp.MustCompile(`\b(?:penstock|process|go)_[a-z_]+(?:\{[^}]*\})?|\bup\{[^}]*\}`)
	comparison = regexp.MustCompile(` (==|>=|>|<) `)
	labelQuery = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// dashboardQueries returns the queries of the dashboard's panels and variables, as Grafana would
// send them for one model and all edges.
func dashboardQueries(t *testing.T, model string) (queries []string) {
	t.Helper()
	var file struct {
		Panels     []struct{ Targets []struct{ Expr string } }
		Templating struct {
			List []struct{ Type, Query string }
		}
	}
	text, err := os.ReadFile("../../../.deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, v := range file.Templating.List {
		if m := labelQuery.FindStringSubmatch(v.Query); m != nil {
			queries = append(queries, "count by ("+m[2]+") ("+m[1]+")")
		} else if v.Type == "query" {
			t.Errorf("the variable's query %q is not understood here", v.Query)
		}
	}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	values := strings.NewReplacer(`="$model"`, `="`+model+`"`, `"$model"`, `".+"`, `"$instance"`, `".+"`, "$__rate_interval", "1m")
	for i, q := range queries {
		if queries[i] = values.Replace(q); strings.Contains(queries[i], "$") {
			t.Errorf("a variable without a value here: %s", queries[i])
		}
	}
	return queries
}

// TestQueriesAndAlerts runs a Prometheus that scrapes edges with calls of all kinds. It checks that
// each query in the dashboard and each alert rule is evaluated without an error and finds series.
// Comparisons are evaluated as numbers, because most alerts find no series on a healthy edge. Each
// selector is also queried separately, because "or vector(0)" hides a selector that finds no
// series.
func TestQueriesAndAlerts(t *testing.T) {
	fastset.SkipIfShort(t, "the board and the alerts in a running Prometheus")
	rules, err := filepath.Abs("../../../.deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e := startEdges(t)
	s := startServer(t, rules, e.targets())
	e.traffic()
	s.wantScraped(len(e.targets()))

	queries := dashboardQueries(t, "sim")
	if len(queries) < 40 {
		t.Errorf("the board has %d queries", len(queries))
	}
	alerts := s.rules()
	if len(alerts) < 20 {
		t.Errorf("there are %d alerts", len(alerts))
	}
	for _, a := range alerts {
		queries = append(queries, a.Query)
	}
	s.wantSeries(queries)
	s.wantEvaluated()
}

func (s *server) wantSeries(queries []string) {
	s.t.Helper()
	var left []string
	for _, q := range queries {
		for _, one := range selector.FindAllString(q, -1) {
			if !slices.Contains(left, one) {
				left = append(left, one)
			}
		}
		if _, err := s.results(q); err != nil {
			s.t.Errorf("%s: %v", q, err)
		} else if !strings.HasPrefix(q, "absent(") {
			left = append(left, comparison.ReplaceAllString(q, " $1 bool "))
		}
	}
	defer func() {
		for _, q := range left {
			s.t.Errorf("finds nothing: %s", q)
		}
	}()
	rig.WaitFor(s.t, 3*rig.WaitTimeout, "each query finds series", func() bool {
		left = slices.DeleteFunc(left, func(q string) bool {
			n, err := s.results(q)
			if err != nil {
				s.t.Errorf("%s: %v", q, err)
			}
			return n > 0 || err != nil
		})
		return len(left) == 0
	})
}

// wantEvaluated waits until Prometheus has evaluated each rule without an error, and reports the
// alerts for the problems in this test.
func (s *server) wantEvaluated() {
	s.t.Helper()
	left := ""
	defer func() {
		if left != "" {
			s.t.Errorf("the rules: %s", left)
		}
	}()
	rig.WaitFor(s.t, 3*rig.WaitTimeout, "each rule is evaluated", func() bool {
		left = ""
		for _, r := range s.rules() {
			if r.Health != "ok" {
				left += r.Name + " " + r.Health + " " + r.LastError + "; "
			}
			if slices.Contains(expectedAlerts, r.Name) && r.State == "inactive" {
				left += r.Name + " is inactive; "
			}
		}
		return left == ""
	})
}
