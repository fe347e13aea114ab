package rig

import (
	"encoding/json"
	"net/http"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/operate/status"
)

// AdminToken is sent with every request to the admin listener.
const AdminToken = "the-admin-token-of-this-test"

func (e *Edge) adminPage(path string) *Reply {
	e.T.Helper()
	return e.fetchPage(e.Admin+path, "Authorization: Bearer "+AdminToken)
}

// fetchPage requests an admin page. If the edge has short client timeouts, it may close the
// connection on a busy machine. In this case, fetchPage repeats the request.
func (e *Edge) fetchPage(url string, header ...string) *Reply {
	e.T.Helper()
	for deadline := time.Now().Add(WaitTimeout); ; time.Sleep(10 * time.Millisecond) {
		r, err := e.tryFetch("GET", url, header...)
		late := err != nil || r.Err != nil || r.Status == http.StatusRequestTimeout
		switch {
		case !late:
			return r.WantStatus(200)
		case time.Now().After(deadline):
			e.T.Fatalf("GET %s: %v, %+v", url, err, r)
		}
	}
}

// State contains the members of the state page that tests read.
type State struct {
	Version   int64           `json:"version"`
	InFlight  int64           `json:"in_flight"`
	Upstreams []UpstreamState `json:"upstreams"`
	Calls     []struct {
		State string `json:"state"`
		Model string `json:"model"`
		Asked string `json:"asked_model"`
	} `json:"calls"`
	Models  []status.Model  `json:"models"`
	Keys    []status.Key    `json:"keys"`
	Issuers []status.Issuer `json:"issuers"`
	Fleet   *fleet.State    `json:"fleet"`
	Verdict struct {
		Level string `json:"level"`
		Text  string `json:"text"`
	} `json:"verdict"`
}

// UpstreamState is one upstream on the state page.
type UpstreamState struct {
	Name    string                  `json:"name"`
	State   string                  `json:"state"`
	Breaker string                  `json:"breaker"`
	Mode    string                  `json:"mode"`
	ModeWho string                  `json:"mode_who"`
	Downs   int                     `json:"downs"`
	Limits  struct{ Source string } `json:"limits"`
	Pools   []struct {
		Pool   string `json:"pool"`
		Active int    `json:"active"`
	} `json:"pools"`
	LastFailure *struct {
		Reason string `json:"reason"`
		Status int    `json:"status"`
	} `json:"last_failure"`
}

// Upstream returns the state of the upstream with the given name.
func (e *Edge) Upstream(name string) UpstreamState {
	e.T.Helper()
	for _, u := range e.Status().Upstreams {
		if u.Name == name {
			return u
		}
	}
	e.T.Fatalf("there is no upstream %s", name)
	return UpstreamState{}
}

// Status reads the state page.
func (e *Edge) Status() *State {
	e.T.Helper()
	r := e.adminPage("/status")
	WantNoLeak(e.T, "the state page", r.Body, e.Key)
	s := new(State)
	if err := json.Unmarshal([]byte(r.Body), s); err != nil {
		e.T.Fatalf("the state page: %v\n%s", err, r.Body)
	}
	return s
}

// CountCalls counts the calls in the given state, such as body, queued or waiting.
func (s *State) CountCalls(state string) (n int) {
	for _, c := range s.Calls {
		if c.State == state {
			n++
		}
	}
	return n
}

// Model contains the members of a catalog entry that tests read.
type Model struct {
	ID       string `json:"id"`
	IsReady  bool   `json:"is_ready"`
	Capacity struct {
		Available int `json:"available_concurrency"`
		Total     int `json:"total_concurrency"`
		Active    int `json:"active_requests"`
	} `json:"capacity"`
}

// Catalog reads the public list of models. The list may be up to a second old.
func (e *Edge) Catalog() []Model {
	e.T.Helper()
	var list struct{ Data []Model }
	r := e.fetchPage(e.URL + "/v1/models")
	if err := json.Unmarshal([]byte(r.Body), &list); err != nil {
		e.T.Fatalf("the catalog: %v\n%s", err, r.Body)
	}
	return list.Data
}

// Goroutines returns the stacks of the program's goroutines, with identical stacks merged.
func (e *Edge) Goroutines() string { return e.adminPage("/-/goroutines").Body }
