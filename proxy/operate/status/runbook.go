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
	case u.breakerBlocksCalls():
		return "PenstockBreakerOpen"
	case Thresholds.Attempts.shareExceeds(u.failedAttempts()):
		return Thresholds.Attempts.Alert
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
		add(Thresholds.Failed.shareExceeds(n.Failed, n.Calls), Thresholds.Failed.Alert)
		add(Thresholds.Full.shareExceeds(n.Full, n.Calls), Thresholds.Full.Alert)
		add(Thresholds.Queue.quantileExceeds(n.QueueP95, n.Queued), Thresholds.Queue.Alert)
		add(Thresholds.TTFT.quantileExceeds(n.TTFTP95Millis, n.Streams), Thresholds.TTFT.Alert)
	}
	for _, i := range s.upstreamOrder() {
		u := &s.Upstreams[i]
		add(u.Mode == "ready", u.Runbook())
	}
	add(s.Panicking != "", "PenstockPanicking")
	add(s.Certificate.needsReplacement(s.Now), "PenstockCertificateExpires")
	add(s.AdminCertificate.needsReplacement(s.Now), "PenstockAdminCertificateExpires")
	add(len(s.Certificate.overdueRenewals(s.Now)) > 0, "PenstockCertificateNotRenewed")
	add(s.Unsaved > maxUnsavedSeconds, "PenstockLedgerUnsaved")
	add(slices.ContainsFunc(s.Discoveries, func(d Discovery) bool { return d.Problem() != "" }), "PenstockDiscoveryStale")
	add(slices.ContainsFunc(s.Issuers, func(i Issuer) bool { return i.Problem() != "" }), "PenstockIssuerKeys")
	add(slices.ContainsFunc(s.Hooks, func(h Hook) bool { return h.Problem() != "" }), "PenstockHookFails")
	add(s.Fleet.StoreProblem() != "", "PenstockStoreLost")
	add(s.LastReload != nil && !s.LastReload.OK, "PenstockReloadFailed")
	return all
}

// RemedyCommands lists the commands among the remedies, or returns "" if there is no command among
// them.
func (s *Status) RemedyCommands() string {
	var all []string
	for _, r := range s.Remedies() {
		if strings.HasPrefix(r, "penstock ") && r != defaultRemedy {
			all = append(all, r)
		}
	}
	if all == nil {
		return ""
	}
	return "What to do: " + strings.Join(all, ", ")
}

// defaultRemedy is the remedy for a problem that has no other remedy.
const defaultRemedy = "penstock top"

// Remedies returns remedies for the verdict's problems: commands, or settings to change. The list
// is never empty.
func (s *Status) Remedies() (all []string) {
	for _, alert := range s.Runbooks() {
		all = append(all, "penstock explain "+alert)
	}
	add := func(trouble bool, remedy string) {
		if trouble && !slices.Contains(all, remedy) {
			all = append(all, remedy)
		}
	}
	for _, i := range s.upstreamOrder() {
		u := &s.Upstreams[i]
		add(u.Mode != "ready", "penstock ready "+u.Label)
		add(u.Unheard > 0, "penstock explain upstream_suspect")
		for j := range u.Lacks {
			add(u.Mode == "ready", u.Label+": "+u.Lacks[j].Remedy())
		}
		add(len(u.Missing) > 0, "penstock doctor --config FILE says what "+u.Label+" serves")
		add(u.State == "pending", "penstock explain pending")
		add(u.lateReportText() != "", u.Label+": look at its metrics page")
	}
	add(slices.ContainsFunc(s.Hooks, func(h Hook) bool { return h.Problem() != "" }), "penstock explain hook_unavailable")
	add(s.RejectsConnections, "penstock explain limits.connections")
	add(s.AdminPortShared, "penstock explain admin.listen")
	add(len(all) == 0, defaultRemedy)
	return all
}

// needsReplacement reports whether a certificate from a file is invalid or expires soon.
func (c *Certificate) needsReplacement(now time.Time) bool {
	if c == nil || len(c.Domains) > 0 {
		return false
	}
	return c.Trouble(now) != "" || c.NotAfter.Sub(now) < config.ExpiryNotice(c.NotBefore, c.NotAfter)
}

// replacementText returns the end of a sentence that tells the operator how to replace a
// certificate from a file. It returns "" for certificates that the edge itself obtains, because
// those have other remedies.
func (c *Certificate) replacementText(setting string) string {
	if len(c.Domains) > 0 {
		return ""
	}
	return ": " + fileReplacementText(setting)
}

type alertRunbook struct {
	Name string
	Text []runbookText
}

type runbookText struct {
	Text string
	Code bool
}

// markdownLink matches a Markdown link. The page shows only the link's text.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

func splitAlertSections(document string) (all [][2]string) {
	_, alerts, _ := strings.Cut(document, "\n## Alerts\n")
	for _, section := range strings.Split(alerts, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		all = append(all, [2]string{name, markdownLink.ReplaceAllString(strings.TrimSpace(text), "$1")})
	}
	return all
}

// AlertInstructions returns the instructions for each alert, by name, without Markdown.
func AlertInstructions(document string) map[string]string {
	all := map[string]string{}
	for _, s := range splitAlertSections(document) {
		all[s[0]] = strings.ReplaceAll(s[1], "`", "")
	}
	return all
}

// RenderRunbookPage renders the instructions for all alerts. The anchor of each text is the name of its
// alert.
func RenderRunbookPage(document string, now time.Time) ([]byte, error) {
	var all []alertRunbook
	for _, section := range splitAlertSections(document) {
		one := alertRunbook{Name: section[0]}
		for i, piece := range strings.Split(section[1], "`") {
			one.Text = append(one.Text, runbookText{piece, i%2 == 1})
		}
		all = append(all, one)
	}
	return renderTemplate("runbook", struct {
		Now   time.Time
		Fleet *fleet.State
		CSS   template.CSS
		All   []alertRunbook
	}{now, nil, pageCSS, all})
}
