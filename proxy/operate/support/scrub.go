package support

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"penstock/config"
	"penstock/config/strictyaml"
)

// Texts shorter than shortestSecret would match within ordinary words. If a secret has at least
// longSecret characters, its prefixes also count as secrets, because messages may truncate
// quotations.
const (
	shortestSecret = 6
	longSecret     = 24
	beginning      = 16
)

type scrubber struct {
	whole *strings.Replacer
	begun []*regexp.Regexp // match truncated long secrets, up to the next space or quote
}

func newScrubber(secrets []string) *scrubber {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < shortestSecret })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s := &scrubber{}
	var pairs []string
	for _, secret := range slices.Compact(secrets) {
		pairs = append(pairs, secret, strictyaml.Removed)
		if len(secret) >= longSecret && !strings.Contains(secret, "://") && !strings.HasPrefix(secret, config.HashPrefix) {
			s.begun = append(s.begun, regexp.MustCompile(regexp.QuoteMeta(secret[:beginning])+`[^\s"']*`))
		}
	}
	s.whole = strings.NewReplacer(pairs...)
	return s
}

func (s *scrubber) text(text string) string {
	text = s.whole.Replace(text)
	for _, r := range s.begun {
		text = r.ReplaceAllString(text, strictyaml.Removed)
	}
	return text
}

func (s *scrubber) bytes(content []byte) []byte {
	if content == nil {
		return nil
	}
	return []byte(s.text(string(content)))
}
