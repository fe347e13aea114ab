package status

import (
	"time"

	"penstock/config"
)

// pair describes a certificate in a file and the end of its validity, in one line.
type pair struct {
	Of, Text, Level string
	// time until it expires, if it is not overdue yet but the headline mentions it
	Soon string
}

// pairsOf returns the certificates of the public and the admin listener that come from files.
func pairsOf(s *Status) (out []pair) {
	for _, c := range []struct {
		of string
		*Certificate
	}{{"the public listener (tls)", s.Certificate}, {"the admin listener (admin.tls)", s.AdminCertificate}} {
		if c.Certificate == nil || len(c.Domains) > 0 {
			continue
		}
		p := pair{Of: c.of, Text: "certificate of " + c.of + ": until " + c.NotAfter.UTC().Format(time.RFC3339), Level: LevelOK}
		overdue, urgent := config.RenewalOverdue(c.NotBefore, c.NotAfter)
		switch left := c.NotAfter.Sub(s.Now); {
		case c.Trouble(s.Now) != "":
			p.Level = LevelOut
			p.Text += ": " + c.Trouble(s.Now)
		case left < urgent:
			p.Level = LevelFailing
			p.Text += ", which is in " + Ago(left)
		case left < overdue:
			p.Level = LevelDegraded
			p.Text += ", which is in " + Ago(left)
		case left < config.EndsSoon(c.NotBefore, c.NotAfter):
			p.Soon = "the certificate of " + c.of + " ends in " + Ago(left)
		}
		out = append(out, p)
	}
	return out
}
