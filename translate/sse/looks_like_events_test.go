package sse

import "testing"

func TestBegins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text            string
		events, decided bool
	}{
		{"", false, false},
		{"d", false, false},
		{"\r\n\r\nda", false, false},
		{"\ufeff", false, false},
		{"\xef\xbb", false, false},
		{"data: {}", true, true},
		{"\ufeff\ndata:", true, true},
		{": ping", true, true},
		{"event: x", true, true},
		{"id:1", true, true},
		{"retry: 5", true, true},
		{`{"choices":[]}`, false, true},
		{"<html>", false, true},
		{"error: no room", false, true},
		{"dates", false, true},
	} {
		if events, decided := LooksLikeEvents([]byte(c.text)); events != c.events || decided != c.decided {
			t.Errorf("LooksLikeEvents(%q) = %t, %t, want %t, %t", c.text, events, decided, c.events, c.decided)
		}
	}
}
