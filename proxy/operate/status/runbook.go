package status

import (
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/fleet"
)

// Runbook returns the name of the alert in .deploy/alerts.yaml for the upstream's problem, or "".
func (u *Upstream) Runbook() string {
	switch {
	case u.State == "down":
		return "PenstockUpstreamDown"
	case u.State == "stalled", u.Unheard > 0:
		return "PenstockUpstreamStalled"
	case u.failsCalls():
		return "PenstockBreakerOpen"
	case Bounds.Attempts.share(u.failed()):
		return Bounds.Attempts.Alert
	}
	return ""
}

// Runbooks returns the names of the alerts for the verdict's problems, without duplicates.
func (s *Status) Runbooks() (all []string) {
	add := func(trouble bool, alert string) {
		if trouble && alert != "" && !slices.Contains(all, alert) {
			all = append(all, alert)
		}
	}
	for i := range s.Models {
		m := &s.Models[i]
		n := &m.History.Minute
		add(m.State == ModelOut || m.State == ModelFallback, "PenstockModelWithoutEngine")
		add(Bounds.Failed.share(n.Failed, n.Calls), Bounds.Failed.Alert)
		add(Bounds.Full.share(n.Full, n.Calls), Bounds.Full.Alert)
		add(Bounds.Queue.quantile(n.QueueP95, n.Queued), Bounds.Queue.Alert)
		add(Bounds.TTFT.quantile(n.TTFTP95Millis, n.Streams), Bounds.TTFT.Alert)
	}
	for _, i := range s.byTrouble() {
		u := &s.Upstreams[i]
		add(u.Mode == "ready", u.Runbook())
	}
	add(s.Panicking != "", "PenstockPanicking")
	add(s.Certificate.ends(s.Now), "PenstockCertificateExpires")
	add(s.AdminCertificate.ends(s.Now), "PenstockAdminCertificateExpires")
	add(len(s.Certificate.delays(s.Now)) > 0, "PenstockCertificateNotRenewed")
	add(s.Unsaved > unsavedMost, "PenstockLedgerUnsaved")
	add(slices.ContainsFunc(s.Discoveries, func(d Discovery) bool { return d.Problem() != "" }), "PenstockDiscoveryStale")
	add(slices.ContainsFunc(s.Issuers, func(i Issuer) bool { return i.Problem() != "" }), "PenstockIssuerKeys")
	add(slices.ContainsFunc(s.Hooks, func(h Hook) bool { return h.Problem() != "" }), "PenstockHookFails")
	add(s.Fleet.Trouble() != "", "PenstockStoreLost")
	add(s.LastReload != nil && !s.LastReload.OK, "PenstockReloadFailed")
	return all
}

// WhatToDo lists the commands among the remedies, or returns "" if the remedies contain no command.
func (s *Status) WhatToDo() string {
	var all []string
	for _, r := range s.Remedies() {
		if strings.HasPrefix(r, "penstock ") && r != lookAgain {
			all = append(all, r)
		}
	}
	if all == nil {
		return ""
	}
	return "What to do: " + strings.Join(all, ", ")
}

// lookAgain is the remedy for a problem that has no other remedy.
const lookAgain = "penstock top"

// Remedies returns remedies for the verdict's problems: commands, or settings to change. It is
// never empty.
func (s *Status) Remedies() (all []string) {
	for _, alert := range s.Runbooks() {
		all = append(all, "penstock explain "+alert)
	}
	add := func(trouble bool, remedy string) {
		if trouble && !slices.Contains(all, remedy) {
			all = append(all, remedy)
		}
	}
	for _, i := range s.byTrouble() {
		u := &s.Upstreams[i]
		add(u.Mode != "ready", "penstock ready "+u.Label)
		add(u.Unheard > 0, "penstock explain upstream_suspect")
		for j := range u.Lacks {
			add(u.Mode == "ready", u.Label+": "+u.Lacks[j].Remedy())
		}
		add(len(u.Missing) > 0, "penstock doctor --config FILE says what "+u.Label+" serves")
		add(u.State == "pending", "penstock explain pending")
		add(u.unread() != "", u.Label+": look at its metrics page")
	}
	add(slices.ContainsFunc(s.Hooks, func(h Hook) bool { return h.Problem() != "" }), "penstock explain hook_unavailable")
	add(s.TurnedAway, "penstock explain limits.connections")
	add(s.AdminPortShared, "penstock explain admin.listen")
	add(len(all) == 0, lookAgain)
	return all
}

// ends reports whether a certificate from a file is invalid or expires soon.
func (c *Certificate) ends(now time.Time) bool {
	if c == nil || len(c.Domains) > 0 {
		return false
	}
	return c.Trouble(now) != "" || c.NotAfter.Sub(now) < config.EndsSoon(c.NotBefore, c.NotAfter)
}

// replace returns the end of a sentence that tells the operator how to replace a certificate from a
// file. It does not apply to certificates that the edge itself obtains, which have other remedies.
func (c *Certificate) replace(setting string) string {
	if len(c.Domains) > 0 {
		return ""
	}
	return ": " + newPair(setting)
}

type runbook struct {
	Name string
	Text []runText
}

type runText struct {
	Text string
	Code bool
}

// linked matches a Markdown link. The page shows only the link's text.
var linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

func sections(document string) (all [][2]string) {
	_, alerts, _ := strings.Cut(document, "\n## Alerts\n")
	for _, section := range strings.Split(alerts, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		all = append(all, [2]string{name, linked.ReplaceAllString(strings.TrimSpace(text), "$1")})
	}
	return all
}

// AlertTexts returns the instructions for each alert, by name, without Markdown.
func AlertTexts(document string) map[string]string {
	all := map[string]string{}
	for _, s := range sections(document) {
		all[s[0]] = strings.ReplaceAll(s[1], "`", "")
	}
	return all
}

// RunbookPage renders the instructions for all alerts. The anchor of each text is the name of its
// alert.
func RunbookPage(document string, now time.Time) ([]byte, error) {
	var all []runbook
	for _, section := range sections(document) {
		one := runbook{Name: section[0]}
		for i, piece := range strings.Split(section[1], "`") {
			one.Text = append(one.Text, runText{piece, i%2 == 1})
		}
		all = append(all, one)
	}
	return render("runbook", struct {
		Now   time.Time
		Fleet *fleet.State
		CSS   template.CSS
		All   []runbook
	}{now, nil, pageCSS, all})
}
