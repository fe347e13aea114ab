package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
)

// endUserCanary is part of every end user's name in these tests. It must not appear anywhere except
// in requests.
const endUserCanary = "ZQENDUSERCANARYQZ"

const endUserSecret = "a-secret-for-the-hashes-of-end-users"

func endUserName(id string) string {
	mac := hmac.New(sha256.New, []byte(endUserSecret))
	mac.Write([]byte(id))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// callsByUser returns the number of calls of the key tester, by end user.
func callsByUser(t *testing.T, e *rig.Edge, query string) map[string]uint64 {
	t.Helper()
	var r observe.UsageReport
	page := e.Fetch("GET", e.Admin+"/-/usage?by=user"+query)
	if page.Status == 502 && strings.Contains(query, "fleet") {
		return nil // on a busy machine, the store may respond late
	}
	if err := json.Unmarshal([]byte(page.WantStatus(200).Body), &r); err != nil {
		t.Fatal(err)
	}
	out := map[string]uint64{}
	for _, k := range r.Keys {
		for _, u := range k.Users {
			out[u.User] += u.Total.Calls
		}
	}
	return out
}

// TestEndUsers checks usage by end user in every dialect, after a kill, and in every page and
// command that shows usage. No file, log, metric or page may contain the name sent by the client.
func TestEndUsers(t *testing.T) {
	t.Parallel()
	day := time.Now().UTC().Format(time.DateOnly) // before midnight can pass
	p := rig.StartProgram(t, rig.Setup{
		Top: "ledger: { path: usage.ledger, export: [{ file: usage.jsonl }] }\nlog: { debug_headers: true }\n" +
			"end_users: { secret: " + endUserSecret + ", header: X-User-Id }",
		Model: `pricing: { input: "1", output: "2.5" }`,
	})
	const alice, bob = endUserCanary + "-alice", endUserCanary + "-b\u00f6b"
	calls := 0
	for _, stream := range []string{`"stream":false,`, `"stream":true,`} {
		for path, body := range map[string]string{
			chatPath:          `"messages":[{"role":"user","content":"Hi"}],"user":"` + alice + `"}`,
			"/v1/messages":    `"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"metadata":{"user_id":"` + alice + `"}}`,
			"/v1/responses":   `"input":"Hi","safety_identifier":"` + alice + `","user":"` + bob + `"}`,
			"/v1/completions": `"prompt":"Hi","user":"\u005a` + alice[1:] + `"}`,
		} {
			p.Post(path, `{"model":"sim",`+stream+body).WantStatus(200)
			p.Post(path, `{"model":"sim",`+stream+body, "X-User-Id: "+bob).WantStatus(200)
			calls++
		}
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.Post(chatPath, p.ChatRequest(`"user":"`+strings.Repeat(endUserCanary, 100)+`"`)).WantStatus(200)
	p.Post(chatPath, p.ChatRequest(`"user":{"`+endUserCanary+`":1}`)).WantStatus(400)
	p.WaitIdle()
	want := map[string]uint64{endUserName(alice): uint64(calls), endUserName(bob): uint64(calls), "": 2}
	check := func(when string) {
		t.Helper()
		p.WaitIdle()
		got := callsByUser(t, p.Edge, "")
		for user, n := range want {
			if got[user] != n || len(got) != len(want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
	}
	check("at first")
	for _, name := range []string{"usage.ledger", "usage.jsonl"} {
		rig.WaitFor(t, rig.WaitTimeout, name+" has every call", func() bool {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			for _, row := range []string{
				`"model":"sim","calls":18,`, `"user":"` + endUserName(alice) + `","calls":8,`, `"user":"` + endUserName(bob) + `","calls":8,`,
			} {
				if err != nil || !strings.Contains(string(text), row) {
					return false
				}
			}
			return true
		})
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done
	log := p.Log.String()
	p.Restart()
	check("after a kill")
	out, _ := command(t, 0, "usage", "--by", "user", "--admin", p.Admin, "--day", day)
	if !strings.Contains(out, endUserName(alice)) || !strings.Contains(out, "(others)") || strings.Contains(out, "model") {
		t.Errorf("usage = %s, want alice and the others, without models", out)
	}
	page := p.Fetch("GET", p.Admin+"/usage?by=user").WantStatus(200).Body
	for _, want := range []string{`<a href="/usage">By model</a>`, endUserName(bob), `<a href="/-/usage?by=user">`} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing in\n%s", want, page)
		}
	}
	if page := p.Fetch("GET", p.Admin+"/usage").WantStatus(200).Body; !strings.Contains(page, `<a href="/usage?by=user">By end user</a>`) {
		t.Error("the page by model has no way to that by end user")
	}
	for _, path := range []string{"/-/usage", "/-/usage?by=user", "/usage?by=user", "/metrics", "/status", "/"} {
		if text := p.Fetch("GET", p.Admin+path).WantStatus(200).Body; strings.Contains(text, endUserCanary) {
			t.Errorf("%s shows what the client wrote", path)
		}
	}
	if log += p.Log.String(); strings.Contains(log, endUserCanary) || strings.Contains(log, endUserSecret) {
		t.Error("the log has what the client wrote, or the secret")
	}
	files, err := os.ReadDir(p.Dir)
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v; want 4 or more", len(files), err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(filepath.Join(p.Dir, f.Name())); err != nil || strings.Contains(string(text), endUserCanary) {
			t.Errorf("%s has what the client wrote, or cannot be read: %v", f.Name(), err)
		}
	}
}

// TestEndUsersOff checks that end users are not counted if no secret is configured, and that the
// response to a usage query says why. A reload must be able to enable and disable counting.
func TestEndUsersOff(t *testing.T) {
	t.Parallel()
	p := rig.StartProgram(t, rig.Setup{})
	call := func() {
		p.Post(chatPath, p.ChatRequest(`"user":"alice"`), "X-User-Id: bob").WantStatus(200)
		p.WaitIdle()
	}
	off := func() {
		t.Helper()
		for _, path := range []string{"/-/usage?by=user", "/usage?by=user"} {
			if r := p.Fetch("GET", p.Admin+path); r.Status != 400 || !strings.Contains(r.Body, "end_users.secret") {
				t.Errorf("%s = %d %s, want 400 and end_users.secret", path, r.Status, r.Body)
			}
		}
		if page := p.Fetch("GET", p.Admin+"/usage").WantStatus(200).Body; strings.Contains(page, "end user") {
			t.Error("the page speaks of end users")
		}
	}
	call()
	off()
	text, err := os.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	reload := func(add string) {
		t.Helper()
		p.Write("penstock.yaml", string(text)+add)
		if status, answer := p.Reload(); status != 200 {
			t.Fatalf("reload = %d %s, want 200", status, answer)
		}
	}
	reload("\nend_users: { secret: " + endUserSecret + " }\n")
	call()
	if got := callsByUser(t, p.Edge, ""); len(got) != 2 || got[endUserName("alice")] != 1 || got[""] != 1 {
		t.Errorf("calls by user = %v, want 1 of alice and 1 of nobody", got)
	}
	reload("")
	call()
	off()
	if got := usageOf(t, p.Edge).Total.Calls; got != 3 {
		t.Errorf("%d calls, want 3", got)
	}
}

// TestFleetEndUsers checks that usage by end user is summed over the edges of a fleet, and that it
// does not increase the usage of keys.
func TestFleetEndUsers(t *testing.T) {
	t.Parallel()
	store := miniredis.RunT(t)
	setup := rig.Setup{Top: "fleet: { edges: 2, store: { url: \"redis://" + store.Addr() + "\", timeout: 1s }, secrets: [0123456789abcdef0123456789abcdef] }\n" +
		"end_users: { secret: " + endUserSecret + " }\nseal: { keys: [\"" + endUserSecret + "\"] }"}
	a, b := rig.StartProgram(t, setup), rig.StartProgram(t, setup)
	for _, e := range []*rig.ProgramEdge{a, b} {
		for _, user := range []string{"alice", "bob"} {
			e.Post(chatPath, e.ChatRequest(`"user":"`+user+`"`)).WantStatus(200)
		}
		e.Post(chatPath, e.ChatRequest("")).WantStatus(200)
	}
	for _, e := range []*rig.ProgramEdge{a, b} {
		rig.WaitFor(t, rig.WaitTimeout, "both edges tell the sum", func() bool {
			got := callsByUser(t, e.Edge, "&fleet=true")
			return len(got) == 3 && got[endUserName("alice")] == 2 && got[endUserName("bob")] == 2 && got[""] == 2
		})
		var all observe.UsageReport
		var r *rig.Reply
		rig.WaitFor(t, rig.WaitTimeout, "the store tells its usage", func() bool {
			r = e.Fetch("GET", e.Admin+"/-/usage?fleet=true")
			return r.Status == 200
		})
		if err := json.Unmarshal([]byte(r.Body), &all); err != nil || all.Total.Calls != 6 || strings.Contains(r.Body, "user") {
			t.Errorf("usage = %s, %v; want 6 calls and no users", r.Body, err)
		}
	}
}
