package support

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"penstock/config"
	"penstock/config/strictyaml"
)

// Texts shorter than minSecretBytes would match within ordinary words. If a secret has at least
// longSecretBytes bytes, its prefixes also count as secrets, because messages may truncate the text
// that they quote.
const (
	minSecretBytes       = 6
	longSecretBytes      = 24
	truncatedSecretBytes = 16
)

type scrubber struct {
	replacer         *strings.Replacer
	truncatedSecrets []*regexp.Regexp // match truncated long secrets, up to the next space or quote
}

func newScrubber(secrets []string) *scrubber {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return len(s) < minSecretBytes })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s := &scrubber{}
	var pairs []string
	for _, secret := range slices.Compact(secrets) {
		pairs = append(pairs, secret, strictyaml.RemovedText)
		if len(secret) >= longSecretBytes && !strings.Contains(secret, "://") && !strings.HasPrefix(secret, config.HashPrefix) {
			s.truncatedSecrets = append(s.truncatedSecrets, regexp.MustCompile(regexp.QuoteMeta(secret[:truncatedSecretBytes])+`[^\s"']*`))
		}
	}
	s.replacer = strings.NewReplacer(pairs...)
	return s
}

func (s *scrubber) scrubText(text string) string {
	text = s.replacer.Replace(text)
	for _, r := range s.truncatedSecrets {
		text = r.ReplaceAllString(text, strictyaml.RemovedText)
	}
	return text
}

func (s *scrubber) scrubBytes(content []byte) []byte {
	if content == nil {
		return nil
	}
	return []byte(s.scrubText(string(content)))
}
