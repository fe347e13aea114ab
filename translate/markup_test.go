package translate

import "testing"

// TestMarkupSuspect checks that markup is suspect if the request offered the feature to which the
// markup belongs.
func TestMarkupSuspect(t *testing.T) {
	for i := range leaks {
		m := Markup(i)
		if m.Suspect(Offered{}) != leaks[i].reasoning || m.Suspect(Offered{Tools: true}) != (i > 0) {
			t.Errorf("Suspect of %q disagrees with the offered features", m)
		}
		if word := m.String(); word != "" && word[0] != '<' && word[0] != '[' {
			t.Errorf("%q begins with another character than Opening looks for", word)
		}
		if len(m.String()) > len(Opening{}.text) {
			t.Errorf("%q is too long to be seen", m)
		}
	}
	var o Opening
	o.Markup = 1
	if !o.Markup.Suspect(Offered{Tools: true}) || o.Markup.Suspect(Offered{}) {
		t.Error("a tool call's is suspect where no tools are offered")
	}
}
