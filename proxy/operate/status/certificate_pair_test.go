package status

import (
	"strings"
	"testing"
	"time"
)

// TestCertificatePairs checks that the page and the terminal show when certificates from files expire, and
// that the first sentence explains the consequence.
func TestCertificatePairs(t *testing.T) {
	until := func(left time.Duration) *Certificate {
		return &Certificate{NotBefore: now.Add(-90 * 24 * time.Hour), NotAfter: now.Add(left)}
	}
	day := 24 * time.Hour
	for _, c := range []struct {
		public, admin *Certificate
		lines         []string // expected lines on the page
		sentence      string
	}{
		{nil, nil, nil, "Healthy: "},
		{&Certificate{NotBefore: now.Add(-24 * day), NotAfter: now.Add(6 * day)}, nil, []string{
			`warn">!</span> certificate of the public listener (tls): until 2026-11-27T12:00:00Z, which is in 6 d 0 h</li>`,
		}, "Degraded: "},
		// Created by hand for a few days.
		{&Certificate{NotBefore: now, NotAfter: now.Add(4 * day)}, nil, []string{
			`up">✓</span> certificate of the public listener (tls): until 2026-11-25T12:00:00Z</li>`,
		}, "Healthy: "},
		// Valid for seven days, renewed when a third of the time is left.
		{&Certificate{NotBefore: now.Add(-5 * day), NotAfter: now.Add(2 * day)}, nil, []string{
			`up">✓</span> certificate of the public listener (tls): until 2026-11-23T12:00:00Z</li>`,
		}, "Healthy: "},
		// The certificate was not renewed in time.
		{&Certificate{NotBefore: now.Add(-6 * day), NotAfter: now.Add(day)}, nil, []string{
			`warn">!</span> certificate of the public listener (tls): until 2026-11-22T12:00:00Z, which is in 1 d 0 h</li>`,
		}, "Degraded: the certificate of the public listener"},
		{until(4 * day), nil, []string{`warn">!</span> certificate of the public listener (tls): until 2026-11-25T12:00:00Z, which is in 4 d 0 h</li>`}, "Degraded: the certificate of"},
		{until(20 * time.Hour), nil, []string{`down">✕</span> certificate of the public listener (tls): until 2026-11-22T08:00:00Z, which is in 20 h 0 min</li>`}, "Degraded: the certificate of"},
		// The certificate is renewed each day.
		{&Certificate{NotBefore: now.Add(-1 * day), NotAfter: now.Add(2 * day)}, nil, []string{
			`up">✓</span> certificate of the public listener (tls): until 2026-11-23T12:00:00Z</li>`,
		}, "Healthy: "},
		{until(30 * day), nil, []string{`up">✓</span> certificate of the public listener (tls): until 2026-12-21T12:00:00Z</li>`}, "Healthy: "},
		{until(8 * day), until(6 * day), []string{
			`up">✓</span> certificate of the public listener (tls): until 2026-11-29T12:00:00Z</li>`,
			`warn">!</span> certificate of the admin listener (admin.tls): until 2026-11-27T12:00:00Z, which is in 6 d 0 h</li>`,
		}, "Degraded: the certificate of the admin listener (admin.tls) ends in 6 d 0 h (2026-11-27T12:00:00Z): write a new pair to the paths of admin.tls.cert and admin.tls.key, no restart is needed. Every model is served."},
		{
			nil, until(-time.Hour),
			[]string{`down">✕</span> certificate of the admin listener (admin.tls): until 2026-11-21T11:00:00Z: the certificate expired on 2026-11-21T11:00:00Z</li>`},
			"Degraded: the admin listener's certificate expired on 2026-11-21T11:00:00Z, so scrapers and commands cannot connect: write a new pair to the paths of admin.tls.cert and admin.tls.key, no restart is needed. Every model is served.",
		},
		{&Certificate{Domains: []Domain{{Name: "a.test", NotAfter: now.Add(time.Hour)}}}, nil, nil, "Healthy: "},
	} {
		s := sample()
		s.Upstreams, s.LastReload, s.Certificate, s.AdminCertificate = s.Upstreams[:1], nil, c.public, c.admin
		s.SetVerdict(nil)
		page, err := s.Section("configuration")
		if err != nil || strings.Count(page, "certificate of the ") != len(c.lines) || !strings.HasPrefix(s.Verdict.Text, c.sentence) {
			t.Errorf("%v, verdict %q, want %q and %d certificates:\n%s", err, s.Verdict.Text, c.sentence, len(c.lines), page)
		}
		for _, line := range c.lines {
			_, text, _ := strings.Cut(strings.TrimSuffix(line, "</li>"), "</span> ")
			if !strings.Contains(page, line) || !strings.Contains(strings.Join(strings.Fields(string(s.TerminalText(80))), " "), text) {
				t.Errorf("there is no %q in\n%s", line, page)
			}
		}
	}
}

// TestWhatFailsNowComesFirst checks that an engine that is down is named before a certificate that
// expires in a few days.
func TestWhatFailsNowComesFirst(t *testing.T) {
	s := sample()
	s.Upstreams, s.LastReload = s.Upstreams[:1], nil
	s.Upstreams[0].State, s.Upstreams[0].LastFailure = "stalled", nil
	s.Certificate = &Certificate{NotBefore: now.Add(-60 * 24 * time.Hour), NotAfter: now.Add(4 * 24 * time.Hour)}
	s.SetVerdict(nil)
	if down, ends := strings.Index(s.Verdict.Text, "has stalled"), strings.Index(s.Verdict.Text, "ends in 4 d"); down < 0 || ends < down {
		t.Error(s.Verdict.Text)
	}
}

// TestCertificateOfFewDaysIsMentioned checks that the first sentence mentions a certificate created
// for only a few days, and says what to do. This must not count as a problem. A certificate that is
// renewed each day must not be mentioned.
func TestCertificateOfFewDaysIsMentioned(t *testing.T) {
	for life, want := range map[time.Duration]bool{24 * time.Hour: false, 4 * 24 * time.Hour: true, 30 * 24 * time.Hour: false} {
		s := sample()
		s.Upstreams, s.LastReload = s.Upstreams[:1], nil
		s.Certificate = &Certificate{NotBefore: now, NotAfter: now.Add(life)}
		s.SetVerdict(nil)
		v, todo := s.Verdict, "What to do: penstock explain PenstockCertificateExpires"
		if v.Level != LevelOK || strings.Contains(v.Text, "Look at: the certificate of the public listener (tls) ends in ") != want ||
			strings.HasSuffix(v.Text, "): write a new pair to the paths of tls.cert and tls.key, no restart is needed.") != want || (s.RemedyCommands() == todo) != want {
			t.Errorf("a life of %v: %+v, %s", life, v, s.RemedyCommands())
		}
	}
}
