package status

import (
	"time"

	"penstock/config"
)

type certificateNote struct {
	Of, Text, Level string
	// Ends says when the certificate expires and what to do, if the headline mentions the
	// certificate. Soon is true if the expiry is not yet a problem.
	Ends string
	Soon bool
}

func certificateNotes(s *Status) (out []certificateNote) {
	for _, c := range []struct {
		of, setting string
		*Certificate
	}{{"the public listener (tls)", "tls", s.Certificate}, {"the admin listener (admin.tls)", "admin.tls", s.AdminCertificate}} {
		if c.Certificate == nil || len(c.Domains) > 0 {
			continue
		}
		until, left := c.NotAfter.UTC().Format(time.RFC3339), c.NotAfter.Sub(s.Now)
		p := certificateNote{Of: c.of, Text: "certificate of " + c.of + ": until " + until, Level: LevelOK}
		ends := "the certificate of " + c.of + " ends in " + FormatDuration(left) + " (" + until + "): " + fileReplacementText(c.setting)
		overdue, urgent := config.RenewalThresholds(c.NotBefore, c.NotAfter)
		switch {
		case c.Trouble(s.Now) != "":
			p.Level = LevelOut
			p.Text += ": " + c.Trouble(s.Now)
		case left < urgent:
			p.Level, p.Ends = LevelFailing, ends
			p.Text += ", which is in " + FormatDuration(left)
		case left < overdue:
			p.Level, p.Ends = LevelDegraded, ends
			p.Text += ", which is in " + FormatDuration(left)
		case left < config.ExpiryNotice(c.NotBefore, c.NotAfter):
			p.Ends, p.Soon = ends, true
		}
		out = append(out, p)
	}
	return out
}

// fileReplacementText tells the operator how to replace a certificate that is read from files.
func fileReplacementText(setting string) string {
	return "write a new pair to the paths of " + setting + ".cert and " + setting + ".key, no restart is needed"
}
