package call_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"penstock/proxy/request/internal/calltest"
	"penstock/proxy/request/participant"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
)

// recordingFeature is a feature that is implemented only in this test file. It joins calls if the
// configuration has the model m, and records its notifications.
type recordingFeature struct {
	unwanted bool // whether Join returns nil
	uses     int  // number of times that IsEnabled was called
	events   []string
	shown    strings.Builder
}

func (s *recordingFeature) IsEnabled(snap *snapshot.Snapshot) bool {
	s.uses++
	_, ok := snap.ModelByID("m")
	return ok
}

func (s *recordingFeature) Join(c *participant.Call) participant.Participant {
	s.events = append(s.events, "join "+c.Model.Config.ID)
	if s.unwanted {
		return nil
	}
	c.Response.Set("X-Scratch", "yes")
	return s
}

func (s *recordingFeature) OnSent(c *participant.Call) {
	s.events = append(s.events, "sent "+string(rune('0'+c.Engines)))
}

func (s *recordingFeature) OnAnswerWritten(b []byte) { s.shown.Write(b) }

func (s *recordingFeature) OnEnd(_ *participant.Call, r *observe.Record) {
	s.events = append(s.events, "end "+string(r.Outcome))
}

// TestParticipant checks which notifications about a call a feature gets, and in which order. It
// also shows that a new feature needs only one file and one entry in the list of features.
func TestParticipant(t *testing.T) {
	events := events(false, delta("one"), delta("two"), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
	tests := []struct {
		name, body string
		// Both engines answer the first request with first, and all later requests with then.
		first, then http.HandlerFunc
		stays       int // value of calltest.Client.Stays
		unwanted    bool
		want        []string
	}{
		{"whole", chat(""), calltest.TextHandler("hi"), nil, 0, false, []string{"join m", "sent 1", "end ok"}},
		{"stream", chat(stream), events, nil, 0, false, []string{"join m", "sent 1", "end ok"}},
		{"another engine", chat(""), calltest.AbortConnection, calltest.TextHandler("hi"), 0, false, []string{"join m", "sent 1", "sent 2", "end ok"}},
		{"no engine answers", chat(""), calltest.AbortConnection, calltest.AbortConnection, 0, false, []string{"join m", "sent 1", "sent 2", "end upstream_fail"}},
		{"the client leaves", chat(stream), events, nil, 1, false, []string{"join m", "sent 1", "end client_gone"}},
		{"takes no part", chat(""), calltest.TextHandler("hi"), nil, 0, true, []string{"join m"}},
		{"refused before it joins", strings.Replace(chat(""), `"m"`, `"none"`, 1), nil, nil, 0, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Bool
				answer := func(w http.ResponseWriter, r *http.Request) {
					if asked.Swap(true) {
						tt.then(w, r)
					} else {
						tt.first(w, r)
					}
				}
				a, b := enginePair(answer, answer)
				e, s := calltest.New(t, twoEngines("", ""), a, b), &recordingFeature{unwanted: tt.unwanted}
				e.Services.Features = append(e.Services.Features, s)
				got := e.Send(&calltest.Client{Stays: tt.stays}, chatPath, tt.body)
				if !slices.Equal(s.events, tt.want) {
					t.Errorf("got the events %q, want %q", s.events, tt.want)
				}
				joined := tt.want != nil && !tt.unwanted
				if header := string(got.Header.Peek("X-Scratch")); (header == "yes") != joined {
					t.Errorf("got the header %q, want it set only if the feature takes part: %v", header, joined)
				}
				if shown := s.shown.String(); joined && shown != got.Body || !joined && shown != "" {
					t.Errorf("the feature was shown %q, the client got %q", shown, got.Body)
				}
			})
		})
	}
}

// TestFeaturesOfAConfiguration checks that a feature is consulted about calls only if the
// configuration uses it, and that a reload can change this.
func TestFeaturesOfAConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := singleEngine(nil), &recordingFeature{}
		e := calltest.New(t, strings.ReplaceAll(oneEngine("", ""), "id: m", "id: other"), a)
		e.Services.Features = append(e.Services.Features, s)
		for range 3 {
			e.Post(chatPath, strings.Replace(chat(""), `"m"`, `"other"`, 1))
		}
		if s.uses != 1 || len(s.events) > 0 {
			t.Errorf("got %d questions and the events %q, want one question and no events", s.uses, s.events)
		}
		e.ReloadConfig(oneEngine("", ""))
		e.Post(chatPath, chat(""))
		if s.uses != 2 || len(s.events) == 0 {
			t.Errorf("after the reload: got %d questions and the events %q, want two and some", s.uses, s.events)
		}
	})
}
