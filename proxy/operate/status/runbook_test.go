package status

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"penstock/proxy/fleet"
)

// TestRunbooks checks that the runbook contains instructions for each alert to which the page
// links.
func TestRunbooks(t *testing.T) {
	document, err := os.ReadFile("../../troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := RenderRunbookPage(string(document), now)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("runbook.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`"(Penstock[A-Za-z]+)"`).FindAllStringSubmatch(string(source), -1)
	for _, b := range []Threshold{Thresholds.Failed, Thresholds.Attempts, Thresholds.Full, Thresholds.TTFT, Thresholds.Queue} {
		named = append(named, []string{"", b.Alert})
	}
	if len(named) < 15 {
		t.Fatalf("%d alerts are named", len(named))
	}
	for _, m := range named {
		if !strings.Contains(string(page), `<h2 id="`+m[1]+`">`+m[1]+"</h2>\n<p>") {
			t.Errorf("the runbook has nothing for %s", m[1])
		}
	}
	if text := string(page); !strings.Contains(text, "<code>systemctl status penstock</code>") || strings.Contains(text, "](") || strings.Contains(text, "`") {
		t.Error("the runbook has Markdown, or no code")
	}
}

// TestRemedies checks that the commands for a problem are listed, and that no commands are listed
// without a problem.
func TestRemedies(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	if s.SetVerdict(nil); s.RemedyCommands() != "" {
		t.Errorf("%s: %s", s.Verdict.Text, s.RemedyCommands())
	}
	s.Upstreams[0].Mode = "drain"
	if s.SetVerdict(nil); s.RemedyCommands() != "What to do: penstock ready "+s.Upstreams[0].Label {
		t.Errorf("%s: %s", s.Verdict.Text, s.RemedyCommands())
	}
}

// TestRunbooksOfTroubles checks the alerts for a verdict's problems: alerts about models come
// first, and each alert appears once.
func TestRunbooksOfTroubles(t *testing.T) {
	for want, change := range map[string]func(s *Status){
		"":                                func(*Status) {},
		"PenstockModelWithoutEngine":      func(s *Status) { s.Models[0].Ready = false },
		"PenstockErrors":                  func(s *Status) { n := &s.Models[0].History.Minute; n.Calls, n.Failed = 9, 3 },
		"PenstockUpstreamFails":           func(s *Status) { n := &s.Upstreams[0].History.Minute; n.Calls, n.Retried = 9, 3 },
		"PenstockFull":                    func(s *Status) { n := &s.Models[1].History.Minute; n.Calls, n.Full = 9, 3 },
		"PenstockUpstreamDown":            func(s *Status) { s.Upstreams[0].State, s.Upstreams[1].State = "down", "down" },
		"PenstockUpstreamStalled":         func(s *Status) { s.Upstreams[1].State = "stalled" },
		"PenstockBreakerOpen":             func(s *Status) { s.Upstreams[1].Breaker = "open" },
		"PenstockCertificateExpires":      func(s *Status) { s.Certificate = CertificateOf(now.Add(-90*24*time.Hour), now.Add(4*24*time.Hour)) },
		"PenstockAdminCertificateExpires": func(s *Status) { s.AdminCertificate = CertificateOf(now.Add(-90*24*time.Hour), now.Add(-time.Hour)) },
		"PenstockStoreLost":               func(s *Status) { s.Fleet = &fleet.State{WhenLost: "divide"} },
		"PenstockReloadFailed":            func(s *Status) { s.LastReload = &Reload{} },
	} {
		s := sample()
		s.LastReload = nil
		for i := range s.Upstreams {
			s.Upstreams[i].State = "up"
		}
		change(s)
		s.SetVerdict(nil)
		todo := ""
		if want != "" {
			todo = "What to do: penstock explain " + want
		}
		text := string(s.TerminalText(200))
		if s.RemedyCommands() != todo || !strings.Contains(text, todo+"\n") || strings.Index(text, "\n\n") < strings.Index(text, " in flight ") {
			t.Errorf("%q, want %q:\n%s", s.RemedyCommands(), todo, text)
		}
		if got := strings.Join(s.Runbooks(), " "); got != want || (s.Verdict.Level == LevelOK) != (want == "") {
			t.Errorf("%q, want %q: %+v", got, want, s.Verdict)
		}
	}
}
