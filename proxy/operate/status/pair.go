package status

import "time"

// expiresSoon is how long before its end a certificate in a file is marked, as the alerts
// PenstockCertificateExpires and PenstockAdminCertificateExpires have it.
const expiresSoon = 7 * 24 * time.Hour

// soon is expiresSoon, or for a certificate that is made for less than twice as long, which a
// machine renews, the last tenth of its life.
func (c *Certificate) soon() time.Duration {
	if life := c.NotAfter.Sub(c.NotBefore); life < 2*expiresSoon {
		return life / 10
	}
	return expiresSoon
}

// pair is a certificate in a file, and until when it is good, in one line.
type pair struct{ Text, Level string }

// pairsOf are the certificates in files of the public and of the admin listener.
func pairsOf(s *Status) (out []pair) {
	for _, c := range []struct {
		of string
		*Certificate
	}{{"the public listener (tls)", s.Certificate}, {"the admin listener (admin.tls)", s.AdminCertificate}} {
		if c.Certificate == nil || len(c.Domains) > 0 {
			continue
		}
		p := pair{"certificate of " + c.of + ": until " + c.NotAfter.UTC().Format(time.RFC3339), LevelOK}
		switch left := c.NotAfter.Sub(s.Now); {
		case c.Trouble(s.Now) != "":
			p.Level = LevelOut
			p.Text += ": " + c.Trouble(s.Now)
		case left < c.soon():
			p.Level = LevelDegraded
			p.Text += ", which is in " + Ago(left)
		}
		out = append(out, p)
	}
	return out
}
