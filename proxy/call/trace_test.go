package call

import "testing"

func TestTraceparentOf(t *testing.T) {
	const members = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for given, want := range map[string]string{
		"00" + members:                 "00" + members,
		"01" + members:                 "00" + members, // a newer version begins like the first
		"cc" + members + "-what-comes": "00" + members,
		"ff" + members:                 "",
		"00" + members + "-more":       "",
		"01" + members + "more":        "",
		"0x" + members:                 "",
		"00" + members[:52]:            "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"": "",
	} {
		if got := string(traceparentOf([]byte(given))); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
