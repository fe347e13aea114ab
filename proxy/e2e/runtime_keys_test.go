package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/admin"
)

const (
	keeperToken = "the-token-of-a-portal"
	readerToken = "the-token-of-a-scraper"
)

// keyTokens returns the admin section, with a token for each role and the setting that says where
// keys are stored.
func keyTokens(where string) string {
	return fmt.Sprintf("on_revoke: abort\nadmin: { token: %s, tokens: [{ name: portal, role: keys, token: %s }, { name: scraper, token: %s }]%s }\n",
		rig.AdminToken, keeperToken, readerToken, where)
}

// requestKeys sends a request to the keys API with a token, and returns the response.
func (p *penstock) requestKeys(want int, token, method, path, body string) (done admin.KeyChange, text string) {
	p.T.Helper()
	res := p.adminDo(method, "/-/keys"+path, body, token)
	all, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		p.T.Fatalf("%s /-/keys%s %s: %d, want %d\n%s", method, path, body, res.StatusCode, want, all)
	}
	if strings.Contains(string(all), "sha256:") {
		p.T.Errorf("%s /-/keys%s shows a hash: %s", method, path, all)
	}
	_ = json.Unmarshal(all, &done) // a refusal has a different format
	return done, string(all)
}

// TestKeysAtRunTime checks a key that is created over HTTP. The key must work immediately, obey
// changed limits, and have two secrets during a rotation. When the key is revoked, its streams must
// end. Neither the log nor the file may contain a secret.
func TestKeysAtRunTime(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: keyTokens(", keys: { file: "+t.TempDir()+"/made.yaml }") + "groups: [{ id: team-a, limits: { requests_per_minute: 2 } }]\n", Keys: "- { id: owned, hash: \"sha256:" + strings.Repeat("0", 64) + "\" }\n"})
	call := func(key string, want int) {
		t.Helper()
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+key).WantStatus(want)
	}
	made, _ := p.requestKeys(201, keeperToken, "POST", "", `{"id":"guest","models":["sim","llama"],"limits":{"concurrency":2}}`)
	if len(made.Warnings) != 1 || !strings.Contains(made.Warnings[0], "llama") || made.Source != "runtime" {
		t.Errorf("the answer: %+v", made)
	}
	p.Post(chatPath, p.ChatRequest(`"service_tier":"flex"`)).WantStatus(200)
	call(made.Key, 200)
	p.requestKeys(200, keeperToken, "PATCH", "/guest", `{"limits":{"requests_per_minute":1},"models":["sim"]}`)
	call(made.Key, 200) // a new limit starts with the allowance of a full minute
	call(made.Key, 429)
	p.requestKeys(200, keeperToken, "PATCH", "/guest", `{"limits":{"requests_per_minute":null}}`)
	p.requestKeys(200, keeperToken, "PATCH", "/guest", `{"group":"team-a"}`)
	mate, _ := p.requestKeys(201, keeperToken, "POST", "", `{"id":"mate","models":["sim"],"group":"team-a"}`)
	call(made.Key, 200)
	call(mate.Key, 200)
	refused := p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+mate.Key).WantStatus(429)
	if !strings.Contains(refused.Body, "Rate limit reached: 2 requests per minute of the group team-a. Retry after") {
		t.Errorf("the group refuses: %s", refused.Body)
	}
	p.requestKeys(200, keeperToken, "PATCH", "/guest", `{"group":null}`)
	p.requestKeys(200, keeperToken, "PATCH", "/guest", `{"active":false}`)
	call(made.Key, 401)
	p.requestKeys(200, rig.AdminToken, "PATCH", "/guest", `{"active":true}`)
	second, _ := p.requestKeys(200, keeperToken, "POST", "/guest/rotate", "")
	call(made.Key, 200)
	call(second.Key, 200)
	third, _ := p.requestKeys(200, keeperToken, "POST", "/guest/rotate", `{"overlap":"0s"}`)
	call(second.Key, 401)
	stream := p.OpenStream(chatPath, p.ChatRequest(endlessStream), "Authorization: Bearer "+third.Key)
	stream.Next()

	for _, row := range []struct {
		status                    int
		token, method, path, body string
		says                      string
	}{
		{200, readerToken, "GET", "", "", `"owned"`},
		{200, readerToken, "GET", "/mate", "", `"group": "team-a"`},
		{400, keeperToken, "PATCH", "/mate", `{"group":"team-b"}`, `no group is called \"team-b\": did you mean \"team-a\"?`},
		{200, readerToken, "GET", "/guest", "", `"concurrency": 2`},
		{404, readerToken, "GET", "/gest", "", "guest"},
		{401, "", "GET", "", "", "admin token"},
		{401, "wrong", "POST", "", `{"id":"x"}`, "admin token"},
		{403, readerToken, "POST", "", `{"id":"x"}`, "needs the role keys"},
		{403, readerToken, "DELETE", "/guest", "", "needs the role keys"},
		{409, keeperToken, "POST", "", `{"id":"guest"}`, "with this id already exists"},
		{409, keeperToken, "POST", "", `{"id":"owned"}`, "in the configuration"},
		{409, keeperToken, "PATCH", "/owned", `{"weight":2}`, "in the configuration"},
		{409, keeperToken, "DELETE", "/owned", "", "in the configuration"},
		{404, keeperToken, "DELETE", "/gest", "", "guest"},
		{404, keeperToken, "POST", "/gest/rotate", "", "guest"},
		{400, keeperToken, "POST", "", `{"id":"a/b"}`, `"param":"id"`},
		{400, keeperToken, "POST", "", `{"id":"x","limits":{"requests":5}}`, `"param":"limits.requests"`},
		{400, keeperToken, "POST", "", `{"id":"x","class":"gold"}`, `"param":"class"`},
		{400, keeperToken, "POST", "", `{"id":"x","expires":"2020-01-01"}`, "is past"},
		{400, keeperToken, "PATCH", "/guest", `{"class":"gold"}`, `"param":"class"`},
		{400, keeperToken, "POST", "", `no`, "JSON object"},
		{400, keeperToken, "POST", "/guest/rotate", `{"overlap":"-1s"}`, `"param":"overlap"`},
		{400, keeperToken, "POST", "/guest/rotate", `{"overlap":"9999h"}`, `"param":"overlap"`},
		{400, keeperToken, "POST", "/guest/rotate", `{"overlap":5}`, `"param":"overlap"`},
		{400, keeperToken, "POST", "/guest/rotate", `{"until":"5s"}`, `"param":"until"`},
		{413, keeperToken, "POST", "", `{"id":"x","models":["` + strings.Repeat("m", 20000) + `"]}`, ""},
		{405, keeperToken, "PUT", "/guest", `{}`, "PATCH"},
	} {
		if _, text := p.requestKeys(row.status, row.token, row.method, row.path, row.body); !strings.Contains(text, row.says) {
			t.Errorf("%s %s %.60s: %s, want %q", row.method, row.path, row.body, text, row.says)
		}
	}
	if res := p.adminDo("POST", "/-/keys", `{"id":"x"}`, keeperToken, "Origin: https://evil.example"); res.StatusCode != 403 {
		t.Errorf("a page of another origin: %d", res.StatusCode)
	}
	if res := p.adminDo("POST", "/-/reload", "", keeperToken); res.StatusCode != 403 {
		t.Errorf("a token for keys reloads: %d", res.StatusCode)
	}

	p.requestKeys(200, keeperToken, "DELETE", "/guest", "")
	for ok := true; ok; {
		_, ok = stream.Next()
	}
	call(third.Key, 401)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200) // the key in the configuration still works
	log := p.Log.String()
	if n := p.Metric("penstock_class_calls_total", `class="batch"`); n != 0 || strings.Contains(log, `"class":"batch"`) {
		t.Error("a call that asks for flex has a class, of which the file makes no use")
	}
	for _, event := range []string{"key_created", "key_changed", "key_rotated", "key_revoked"} {
		if !strings.Contains(log, `"event":"`+event+`","key":"guest","who":"portal"`) {
			t.Errorf("the log does not have %s", event)
		}
	}
	for _, secret := range []string{made.Key, second.Key, third.Key, keeperToken} {
		if strings.Contains(log, secret) {
			t.Error("the log has a secret")
		}
	}
}

// TestKeysAtRunTimeNowhere checks that no key is created if the configuration has no storage for
// keys or no token, and that the response names the missing setting.
func TestKeysAtRunTimeNowhere(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: keyTokens("")})
	if _, text := p.requestKeys(409, keeperToken, "POST", "", `{"id":"x"}`); !strings.Contains(text, "admin.keys.file") {
		t.Errorf("nowhere to keep it: %s", text)
	}
	open := start(t, rig.Setup{Top: "admin: { keys: { file: " + t.TempDir() + "/made.yaml } }"})
	if _, text := open.requestKeys(403, "", "POST", "", `{"id":"x"}`); !strings.Contains(text, "admin.token") {
		t.Errorf("without a token: %s", text)
	}
	open.requestKeys(200, "", "GET", "", "")
}

// TestKeysSurviveAKill checks keys whose creation was confirmed, over HTTP or by the command. They
// must work after kill -9, and the file with the keys must contain no secret.
func TestKeysSurviveAKill(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/made.yaml"
	setup := rig.Setup{Top: "on_revoke: abort", Admin: "token: " + rig.AdminToken + ", keys: { file: " + file + " }", Untidy: true}
	p := rig.StartProgram(t, setup)
	tokens := []string{"--admin", p.Admin, "--token", rig.AdminToken}
	out, _ := command(t, 0, append([]string{"key", "create", "guest", "--rpm", "50", "--format", "json"}, tokens...)...)
	var made admin.KeyChange
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Limits["requests_per_minute"] != 50.0 {
		t.Fatalf("key = %s, %v; want 50 requests a minute", out, err)
	}
	p.Signal(syscall.SIGKILL)
	<-p.Done // the edge may write the file until it has exited
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), made.Key) || !strings.Contains(string(text), `"id":"guest"`) {
		t.Errorf("the file: %v\n%s", err, text)
	}
	p = rig.StartProgram(t, setup)
	tokens[1] = p.Admin
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+made.Key).WantStatus(200)
	out, _ = command(t, 0, append([]string{"key", "rotate", "guest"}, tokens...)...)
	if plain, note, _ := strings.Cut(out, "\n"); !strings.HasPrefix(plain, "pstk_") || !strings.Contains(note, "Keep the key now") {
		t.Errorf("key rotate: %s", out)
	}
	if out, _ = command(t, 0, append([]string{"key", "list"}, tokens...)...); !strings.Contains(out, "guest  in force  models *  runtime\n") {
		t.Errorf("key list: %s", out)
	}
	if out, _ = command(t, 0, append([]string{"key", "revoke", "guest"}, tokens...)...); !strings.HasPrefix(out, "revoked: guest.") {
		t.Errorf("key revoke: %s", out)
	}
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+made.Key).WantStatus(401)
	if _, errs := command(t, 1, append([]string{"key", "revoke", "guest"}, tokens...)...); !strings.Contains(errs, "no key with that id") {
		t.Errorf("once more: %s", errs)
	}
}

// TestKeysAtRunTimeInTheStore checks that, if keys are in the fleet's store, a key created at one
// edge soon works at all edges. Changes of its limits and its revocation must also take effect at
// all edges.
func TestKeysAtRunTimeInTheStore(t *testing.T) {
	t.Parallel()
	setup := rig.Setup{Top: strings.Replace(keyTokens(""), "on_revoke: abort\n", "", 1) + storeKeys(miniredis.RunT(t).Addr(), "")}
	a := start(t, setup)
	setup.Fakes = []string{a.Engines[0].URL()}
	b := start(t, setup)
	for _, edge := range []*penstock{a, b} {
		rig.WaitFor(t, rig.WaitTimeout, "the edge has read the store's keys", func() bool { return edge.Fetch("GET", edge.Admin+"/-/ready").Status == 200 })
	}
	made, _ := a.requestKeys(201, keeperToken, "POST", "", `{"id":"guest","limits":{"concurrency":3}}`)
	key := "Authorization: Bearer " + made.Key
	a.Post(chatPath, a.ChatRequest(""), key).WantStatus(200)
	at := func(what string, status int) {
		t.Helper()
		rig.WaitFor(t, rig.WaitTimeout, what, func() bool { return b.Post(chatPath, b.ChatRequest(""), key).Status == status })
	}
	at("the other edge knows the key", http.StatusOK)
	b.requestKeys(409, keeperToken, "POST", "", `{"id":"guest"}`)
	b.requestKeys(200, keeperToken, "PATCH", "/guest", `{"active":false}`)
	b.Post(chatPath, b.ChatRequest(""), key).WantStatus(401)
	rig.WaitFor(t, rig.WaitTimeout, "the first edge follows", func() bool { return a.Post(chatPath, a.ChatRequest(""), key).Status == 401 })
	a.requestKeys(200, keeperToken, "PATCH", "/guest", `{"active":true}`)
	at("it is on again", http.StatusOK)
	a.requestKeys(200, keeperToken, "DELETE", "/guest", "")
	at("it is revoked", http.StatusUnauthorized)
	a.requestKeys(404, keeperToken, "DELETE", "/guest", "")
	a.requestKeys(201, keeperToken, "POST", "", `{"id":"guest"}`)
}

// TestFault103_KeysFileUnwritable checks that, while the file cannot be written, a key change is
// refused with an explanation and has no effect. Calls and other keys must not be affected, and
// changes must work again once the file can be written.
func TestFault103_KeysFileUnwritable(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/made.yaml"
	p := start(t, rig.Setup{Top: keyTokens(", keys: { file: " + file + " }")})
	made, _ := p.requestKeys(201, keeperToken, "POST", "", `{"id":"guest"}`)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	works := func() {
		t.Helper()
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+made.Key).WantStatus(200)
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	// a folder, because not even root can write to a folder as if it were a file
	obstacle := file + ".new"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "", `{"id":"late"}`}, {"PATCH", "/guest", `{"active":false}`}, {"POST", "/guest/rotate", `{"overlap":"0s"}`}, {"DELETE", "/guest", ""},
	} {
		if _, text := p.requestKeys(503, keeperToken, c.method, c.path, c.body); !strings.Contains(text, "Nothing has changed: ") {
			t.Errorf("%s %s: %s", c.method, c.path, text)
		}
		works()
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(before) {
		t.Errorf("the file has changed: %v\n%s", err, now)
	}
	p.requestKeys(404, readerToken, "GET", "/late", "")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	p.requestKeys(201, keeperToken, "POST", "", `{"id":"late"}`)
	works()
	p.requestKeys(200, keeperToken, "DELETE", "/guest", "")
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+made.Key).WantStatus(401)
}

// TestFault104_TwoAdmins checks admins that create and change keys at the same time. If two admins
// create the same key, one of them must receive an error that the key exists. If two admins revoke
// the same key, one of them must receive an error that the key does not exist. No change may undo
// another change.
func TestFault104_TwoAdmins(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: keyTokens(", keys: { file: " + t.TempDir() + "/made.yaml }")})
	// both sends two requests at the same time, and returns their statuses in ascending order.
	both := func(one, two [3]string) (statuses [2]int) {
		var all sync.WaitGroup
		for i, c := range [][3]string{one, two} {
			all.Go(func() {
				res := p.adminDo(c[0], "/-/keys"+c[1], c[2], keeperToken)
				res.Body.Close()
				statuses[i] = res.StatusCode
			})
		}
		all.Wait()
		return [2]int{min(statuses[0], statuses[1]), max(statuses[0], statuses[1])}
	}
	for i := range 8 {
		id := fmt.Sprint("guest", i)
		create := [3]string{"POST", "", `{"id":"` + id + `"}`}
		if got := both(create, create); got != [2]int{201, 409} {
			t.Errorf("two make %s: %v, want 201 and 409", id, got)
		}
		if got := both([3]string{"PATCH", "/" + id, `{"limits":{"concurrency":7}}`}, [3]string{"PATCH", "/" + id, `{"weight":3}`}); got != [2]int{200, 200} {
			t.Errorf("two change %s: %v, want 200", id, got)
		}
		_, text := p.requestKeys(200, readerToken, "GET", "/"+id, "")
		if !strings.Contains(text, `"concurrency": 7`) || !strings.Contains(text, `"weight": 3`) {
			t.Errorf("a change is lost: %s", text)
		}
		rotate := [3]string{"POST", "/" + id + "/rotate", `{"overlap":"0s"}`}
		if got := both(rotate, rotate); got[0] != 200 {
			t.Errorf("two rotate %s: %v", id, got)
		}
		revoke := [3]string{"DELETE", "/" + id, ""}
		if got := both(revoke, revoke); got != [2]int{200, 404} {
			t.Errorf("two revoke %s: %v, want 200 and 404", id, got)
		}
	}
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
}

// TestKeyAtFourEdges checks that a key created at one of four edges, which share a file or a store,
// becomes valid at all of them. The key must stay valid after the edge that created it is killed
// and restarted. While this edge is down, another edge must be able to create keys. The test logs
// how long each step takes.
func TestKeyAtFourEdges(t *testing.T) {
	t.Parallel()
	for place, setup := range map[string]rig.Setup{
		"a file":  {Admin: "token: " + rig.AdminToken + ", keys: { file: " + t.TempDir() + "/made.yaml }"},
		"a store": {Admin: "token: " + rig.AdminToken, Top: strings.Replace(storeKeys(miniredis.RunT(t).Addr(), ""), "edges: 2", "edges: 4", 1)},
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			setup.Untidy = true
			edges := make([]*rig.ProgramEdge, 4)
			for i := range edges {
				edges[i] = rig.StartProgram(t, setup)
			}
			// create creates a key at an edge and waits until all edges accept it.
			create := func(id string, at *rig.ProgramEdge, where ...*rig.ProgramEdge) string {
				out, _ := command(t, 0, "key", "create", id, "--admin", at.Admin, "--token", rig.AdminToken, "--format", "json")
				made, begun := admin.KeyChange{}, time.Now()
				if err := json.Unmarshal([]byte(out), &made); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				for i, e := range where {
					rig.WaitFor(t, rig.WaitTimeout, "the key is in force", func() bool {
						return e.Post(chatPath, e.ChatRequest(""), "Authorization: Bearer "+made.Key).Status == 200
					})
					t.Logf("%s: in force at edge %d after %v", id, i, time.Since(begun))
				}
				return made.Key
			}
			key := create("guest", edges[0], edges...)
			edges[0].Signal(syscall.SIGKILL)
			<-edges[0].Done
			other := create("other", edges[1], edges[1:]...)
			edges[0].Restart()
			for i, e := range edges {
				for _, k := range []string{key, other} {
					rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("edge %d has both keys", i), func() bool {
						return e.Post(chatPath, e.ChatRequest(""), "Authorization: Bearer "+k).Status == 200
					})
				}
			}
		})
	}
}
