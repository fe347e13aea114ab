package jwks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"penstock/proxy/access/auth/jwt"
	"penstock/proxy/telemetry/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	firstSet  = `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"1"}]}`
	secondSet = `{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"2"}]}`
	address   = "https://issuer.test/jwks"
)

type issuer struct {
	fetches, lost atomic.Int64
	answer        atomic.Pointer[answer]
	hang          atomic.Bool // makes fetches hang until the KeySetKeeper is closed
}

type answer struct {
	text string
	err  error
}

func issuerAnswering(text string, err error) *issuer {
	i := new(issuer)
	i.answer.Store(&answer{text, err})
	return i
}

func (i *issuer) keeper() *KeySetKeeper {
	k := New(Options{Log: zap.NewNop(), Guard: guard.New(), OnLoss: func() { i.lost.Add(1) }})
	k.fetch = func(ctx context.Context, _ string) (*jwt.Set, error) {
		i.fetches.Add(1)
		if i.hang.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		a := i.answer.Load()
		if a.err != nil {
			return nil, a.err
		}
		return jwt.ParseSet([]byte(a.text))
	}
	return k
}

// advanceClock advances the clock and waits until all due work has run.
func advanceClock(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuerAnswering(firstSet, nil)
		k := i.keeper()
		s := k.Source(address)
		if advanceClock(time.Hour); i.fetches.Load() != 0 || s.Keys() != nil {
			t.Fatal("a source that is not followed is fetched")
		}
		k.FollowURLs([]string{address})
		if advanceClock(0); i.fetches.Load() != 1 || s.Keys().Len() != 1 || k.Source(address) != s {
			t.Fatalf("%d fetches at the start", i.fetches.Load())
		}
		k.FollowURLs([]string{address})
		if advanceClock(refreshInterval); i.fetches.Load() != 2 {
			t.Fatalf("%d fetches after the period", i.fetches.Load())
		}
		// A token with an unknown key immediately causes a fetch, even right after a periodic
		// fetch.
		if !s.Renew(token(t, "a"), false) || i.fetches.Load() != 3 {
			t.Fatalf("%d fetches for an unknown key", i.fetches.Load())
		}
		// Further tokens with unknown keys cause only one fetch, which starts after the pause.
		for n := range 100 {
			go s.Renew(token(t, fmt.Sprint(n)), false)
		}
		if advanceClock(minFetchInterval - 1); i.fetches.Load() != 3 {
			t.Fatalf("%d fetches before the pause was over", i.fetches.Load())
		}
		if advanceClock(1); i.fetches.Load() != 4 {
			t.Fatalf("%d fetches after the pause", i.fetches.Load())
		}
		if advanceClock(minFetchInterval); i.fetches.Load() != 4 {
			t.Fatalf("%d fetches without another unknown key", i.fetches.Load())
		}
		k.FollowURLs(nil)
		if advanceClock(time.Hour); i.fetches.Load() != 4 {
			t.Fatal("it is fetched after its end")
		}
		k.Close()
	})
}

// token returns a token with the given kid. These tests do not check its signature.
func token(t *testing.T, kid string) *jwt.Token {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	x, err := jwt.ParseToken([]byte(encode([]byte(`{"alg":"EdDSA","kid":"`+kid+`"}`)) + "." + encode([]byte(`{}`)) + "." + encode(make([]byte, 64))))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestRenew checks which tokens wait for a set, how long they wait, and which kids the Source then
// treats as absent.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuerAnswering(firstSet, nil)
		k := i.keeper()
		s := k.Source(address)
		k.FollowURLs([]string{address})
		advanceClock(0)
		renew := func(what, kid string, suspect, final bool, fetches int64, wait time.Duration) {
			t.Helper()
			before, begun := i.fetches.Load(), time.Now()
			if got := s.Renew(token(t, kid), suspect); got != final || i.fetches.Load()-before != fetches || time.Since(begun) != wait {
				t.Errorf("%s: final %v, %d fetches, after %v", what, got, i.fetches.Load()-before, time.Since(begun))
			}
		}
		i.answer.Store(&answer{text: secondSet})
		renew("a new kid", "2", false, true, 1, 0)
		i.answer.Store(&answer{text: firstSet})
		renew("another, within the pause", "1", false, false, 0, maxTokenWait)
		advanceClock(minFetchInterval)
		if s.Keys() == nil || !s.Keys().HasKeyFor(token(t, "1")) {
			t.Error("it is not fetched after the pause")
		}
		advanceClock(minFetchInterval)
		renew("an absent kid", "x", false, true, 1, 0)
		advanceClock(minFetchInterval)
		renew("the same", "x", false, true, 0, 0)
		advanceClock(absentTTL)
		renew("the same, later", "x", false, true, 1, 0)

		advanceClock(minFetchInterval)
		renew("a bad signature", "1", true, true, 1, 0)
		advanceClock(minFetchInterval)
		renew("another", "1", true, true, 0, 0)
		advanceClock(badSignatureInterval)
		renew("another, later", "1", true, true, 1, 0)

		advanceClock(minFetchInterval)
		i.answer.Store(&answer{err: errors.New("refused")})
		renew("of a dead issuer", "y", false, true, 1, 0)
		i.answer.Store(&answer{text: firstSet})
		advanceClock(minFetchInterval)
		renew("of a live one again", "y", false, true, 1, 0) // this kid does not count as absent

		// While a fetch is running, at most maxWaitingTokens tokens wait, and no token waits longer
		// than maxTokenWait.
		advanceClock(minFetchInterval)
		i.hang.Store(true)
		results := make(chan bool, maxWaitingTokens)
		for n := range maxWaitingTokens {
			go func() { results <- s.Renew(token(t, fmt.Sprint("z", n)), false) }()
		}
		synctest.Wait()
		renew("one too many", "z", false, false, 0, 0)
		begun := time.Now()
		for range maxWaitingTokens {
			if <-results {
				t.Error("final without a fetch that has ended")
			}
		}
		if time.Since(begun) != maxTokenWait {
			t.Errorf("they wait for %v", time.Since(begun))
		}
		k.Close()
		advanceClock(0)
	})
}

func TestDeadIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuerAnswering("", errors.New("refused"))
		k := i.keeper()
		s := k.Source(address)
		k.FollowURLs([]string{address})
		if advanceClock(7 * time.Second); i.fetches.Load() != 4 { // fetches at 0, 1, 3 and 7 s
			t.Errorf("%d fetches in the first seconds", i.fetches.Load())
		}
		if st := s.State(); st.Failures != 4 || st.Trouble != "refused" || st.Keys != 0 || !st.Fetched.IsZero() {
			t.Errorf("State of a dead issuer = %+v, want 4 failures, trouble refused and no keys", st)
		}
		i.answer.Store(&answer{text: firstSet})
		advanceClock(maxBackoff)
		if st := s.State(); st.Keys != 1 || st.Trouble != "" || st.Fetched.IsZero() {
			t.Errorf("State after an answer = %+v, want 1 key and no trouble", st)
		}
		i.answer.Store(&answer{err: errors.New("dead")})
		if advanceClock(24 * time.Hour); s.Keys() == nil || s.State().Trouble != "dead" {
			t.Error("the last good set has not stayed")
		}
		before := i.fetches.Load()
		if advanceClock(time.Hour); i.fetches.Load()-before > 61 {
			t.Errorf("%d fetches of a dead issuer in an hour", i.fetches.Load()-before)
		}
		k.Close()
	})
}

func TestWithdrawnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := issuerAnswering(firstSet, nil)
		k := i.keeper()
		k.FollowURLs(nil)
		s := k.Source(address)
		k.FollowURLs([]string{address})
		advanceClock(0)
		both := strings.Replace(firstSet, "]}", ","+strings.TrimPrefix(secondSet, `{"keys":[`), 1)
		i.answer.Store(&answer{text: both})
		if advanceClock(refreshInterval); i.lost.Load() != 0 || s.Keys().Len() != 2 {
			t.Errorf("a key more: %d losses, %d keys", i.lost.Load(), s.Keys().Len())
		}
		i.answer.Store(&answer{text: "{}"}) // not a set, so no keys are lost
		if advanceClock(refreshInterval); i.lost.Load() != 0 || s.Keys().Len() != 2 {
			t.Errorf("a page that is no set: %d losses, %d keys", i.lost.Load(), s.Keys().Len())
		}
		i.answer.Store(&answer{text: secondSet})
		if advanceClock(2 * refreshInterval); i.lost.Load() != 1 || s.Keys().Len() != 1 {
			t.Errorf("a key withdrawn: %d losses, %d keys", i.lost.Load(), s.Keys().Len())
		}
		k.Close()
		k.FollowURLs([]string{address}) // a reload after Close starts no fetch
	})
}

// TestFetch checks fetches from a real server, including invalid responses.
func TestFetch(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	elsewhere := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write([]byte(firstSet))
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/elsewhere":
			elsewhere++
			_, _ = w.Write([]byte(firstSet))
		case "/empty":
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat(" ", jwt.MaxSet) + firstSet))
		case "/broken":
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(firstSet))
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if set, err := fetchKeySet(t.Context(), server.URL+"/good"); err != nil || set.Len() != 1 {
		t.Errorf("a good set: %v", err)
	}
	for path, want := range map[string]string{
		"/moved": "302", "/empty": "not JSON", "/large": "longer than", "/broken": "is truncated", "/down": "503",
	} {
		if _, err := fetchKeySet(t.Context(), server.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if elsewhere != 0 {
		t.Error("a redirect was followed")
	}
	server.Close()
	if _, err := fetchKeySet(t.Context(), server.URL); err == nil || strings.Contains(err.Error(), server.URL) {
		t.Errorf("a dead server: %v", err)
	}
}
