package status

import (
	"fmt"
	"time"
)

// Domain is a domain whose certificate the edge obtains from a CA.
type Domain struct {
	Name      string    `json:"name"`
	NotBefore time.Time `json:"not_before,omitzero"` // zero if there is no certificate yet
	NotAfter  time.Time `json:"not_after,omitzero"`
	Failures  int       `json:"failures"` // consecutive failures to obtain or renew the certificate
	// Problem says why the last attempt failed, or what the edge is waiting for before the next
	// attempt.
	Problem string    `json:"problem,omitempty"`
	Next    time.Time `json:"next,omitzero"`
}

// Text describes the domain in one line.
func (d Domain) Text() string {
	text := "certificate of " + d.Name + ": "
	if d.NotAfter.IsZero() {
		text += "not obtained yet"
	} else {
		text += "until " + d.NotAfter.UTC().Format(time.RFC3339)
	}
	if d.Problem != "" {
		text += ", " + d.attemptsText()
	}
	return text
}

func (d Domain) attemptsText() string {
	if d.Failures == 0 {
		return d.Problem
	}
	return fmt.Sprintf("%s failed, the next is at %s: %s", pluralize(d.Failures, "attempt"),
		d.Next.UTC().Format(time.RFC3339), d.Problem)
}

func (d Domain) rejectionText(now time.Time) string {
	switch {
	case d.NotAfter.IsZero() && d.Problem != "":
		return "there is no certificate of " + d.Name + " yet (" + d.attemptsText() + ")"
	case d.NotAfter.IsZero():
		return "there is no certificate of " + d.Name + " yet"
	case now.After(d.NotAfter):
		return fmt.Sprintf("the certificate of %s expired on %s (%s)", d.Name,
			d.NotAfter.UTC().Format(time.RFC3339), d.attemptsText())
	}
	return ""
}

// overdueRenewals describes the certificates that are still valid but whose renewal is overdue.
func (c *Certificate) overdueRenewals(now time.Time) (all []string) {
	if c == nil {
		return nil
	}
	for _, d := range c.Domains {
		if d.Problem != "" && d.rejectionText(now) == "" {
			all = append(all, fmt.Sprintf("the certificate of %s, which ends in %s, is not renewed: %s", d.Name,
				FormatDuration(d.NotAfter.Sub(now)), d.attemptsText()))
		}
	}
	return all
}
