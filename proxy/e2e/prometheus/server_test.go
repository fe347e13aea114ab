package prometheus

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

type server struct {
	t    *testing.T
	base string
}

// startServer runs a Prometheus that scrapes the targets every second and evaluates the rules in a
// file. The targets are base URLs. If Prometheus is not installed, the test is skipped. If CI is
// set, the test fails instead.
func startServer(t *testing.T, rules string, targets []string) *server {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		const text = "NO PROMETHEUS ON THIS MACHINE: THE QUERIES OF THE BOARD AND THE ALERTS ARE NOT EVALUATED (apt-get install prometheus)"
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	dir, address := t.TempDir(), rig.ReusableAddress()
	config := filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf("global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }\nrule_files: [%q]\n"+
		"scrape_configs:\n", rules)
	for _, scheme := range []string{"http", "https"} {
		var at []string
		for _, target := range targets {
			if address, ok := strings.CutPrefix(target, scheme+"://"); ok {
				at = append(at, address)
			}
		}
		text += fmt.Sprintf("  - { job_name: penstock-%s, scheme: %s, tls_config: { insecure_skip_verify: true }, static_configs: [{ targets: [%s] }] }\n",
			scheme, scheme, strings.Join(at, ", "))
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := rig.StartCommand(t, exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn"))
	s := &server{t, "http://" + address}
	rig.WaitFor(t, 2*rig.WaitTimeout, "Prometheus is ready", func() bool {
		if p.HasExited() {
			t.Fatalf("Prometheus has ended: %s", p.Err)
		}
		res, err := http.Get(s.base + "/-/ready")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return s
}

// queryAPI queries the API and decodes the data in the answer. It returns any error that Prometheus
// reports.
func (s *server) queryAPI(path string, parameters url.Values, data any) error {
	s.t.Helper()
	res, err := http.Get(s.base + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		s.t.Fatalf("%v: %.300s", err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

func (s *server) results(query string) (int, error) {
	s.t.Helper()
	var data struct{ Result []json.RawMessage }
	err := s.queryAPI("query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// rule is an alert rule with the result of its last evaluation.
type rule struct{ Name, Query, Health, LastError, State string }

func (s *server) rules() (all []rule) {
	s.t.Helper()
	var data struct{ Groups []struct{ Rules []rule } }
	if err := s.queryAPI("rules", nil, &data); err != nil {
		s.t.Fatal(err)
	}
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// wantScraped waits until every target has been scraped as OpenMetrics, the format that Prometheus
// prefers. In this format, counter families have names without _total.
func (s *server) wantScraped(targets int) {
	s.t.Helper()
	rig.WaitFor(s.t, 2*rig.WaitTimeout, "every edge is scraped", func() bool {
		var data struct {
			ActiveTargets []struct{ Health, LastError string }
		}
		if err := s.queryAPI("targets", nil, &data); err != nil {
			s.t.Fatal(err)
		}
		up := 0
		for _, target := range data.ActiveTargets {
			if target.Health == "up" {
				up++
			}
		}
		return up == targets
	})
	var families map[string][]struct{ Type string }
	if err := s.queryAPI("metadata", url.Values{"metric": {"penstock_calls"}}, &families); err != nil {
		s.t.Fatal(err)
	}
	if f := families["penstock_calls"]; len(f) != 1 || f[0].Type != "counter" {
		s.t.Errorf("it has not scraped by OpenMetrics: penstock_calls is %v", f)
	}
}
