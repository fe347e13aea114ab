package websocket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"testing"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
)

// fromUser sends the header that names an end user.
type fromUser string

func (name fromUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-User-Id", string(name))
	return http.DefaultTransport.RoundTrip(r)
}

// TestEndUser checks that the calls on a connection count for the end user named in the header of
// the upgrade request. A call whose message names an end user must count for that user instead.
func TestEndUser(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-for-the-hashes-of-end-users"
	p := start(t, rig.Setup{Top: "end_users: { secret: " + secret + ", header: X-User-Id }"})
	named, plain := dialBy(t, p.Edge, &http.Client{Transport: fromUser("alice")}), dial(t, p)
	for range 2 {
		named.requestResponse("", `,"user":"bob"`)
		named.wantCompleted()
	}
	plain.requestResponse("", `,"user":"bob"`)
	plain.wantCompleted()
	name := func(id string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(id))
		return hex.EncodeToString(mac.Sum(nil))[:32]
	}
	rig.WaitFor(t, rig.WaitTimeout, "two calls are alice's, and one is bob's", func() bool {
		var usage observe.UsageReport
		answer := p.Fetch("GET", p.Admin+"/-/usage?by=user").WantStatus(200).Body
		if err := json.Unmarshal([]byte(answer), &usage); err != nil || usage.Total.Calls != 3 {
			return false
		}
		got := map[string]uint64{}
		for _, u := range usage.Keys[0].Users {
			got[u.User] = u.Total.Calls
		}
		return len(got) == 2 && got[name("alice")] == 2 && got[name("bob")] == 1
	})
}
