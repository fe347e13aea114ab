package translate

import "testing"

// TestMarkupSuspect checks that markup is suspect if the request offered the feature to which the
// markup belongs.
func TestMarkupSuspect(t *testing.T) {
	for i := range markupWords {
		m := Markup(i)
		if m.IsSuspect(OfferedFeatures{}) != markupWords[i].reasoning || m.IsSuspect(OfferedFeatures{Tools: true}) != (i > 0) {
			t.Errorf("Suspect of %q disagrees with the offered features", m)
		}
		if word := m.String(); word != "" && word[0] != '<' && word[0] != '[' {
			t.Errorf("%q begins with another character than Opening looks for", word)
		}
		if len(m.String()) > len(MarkupDetector{}.text) {
			t.Errorf("%q is too long to be seen", m)
		}
	}
	var o MarkupDetector
	o.Markup = 1
	if !o.Markup.IsSuspect(OfferedFeatures{Tools: true}) || o.Markup.IsSuspect(OfferedFeatures{}) {
		t.Error("a tool call's is suspect where no tools are offered")
	}
}
