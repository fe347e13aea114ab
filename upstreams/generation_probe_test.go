package upstreams

import (
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// What is sent is small, names the model as the engine does, and is of the model's kind.
func TestGenerationOf(t *testing.T) {
	for _, c := range []struct {
		engine, kind string
		want         []string // path and members
	}{
		{"vllm", config.KindChat, []string{
			`/v1/chat/completions {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"a \"b\"","stream":true}`,
			`/v1/completions {"max_tokens":1,"model":"a \"b\"","prompt":"ping","stream":true}`,
		}},
		{"llamacpp", "", []string{
			`/v1/chat/completions {"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"a \"b\"","stream":true}`,
			`/v1/completions {"max_tokens":1,"model":"a \"b\"","prompt":"ping","stream":true}`,
		}},
		{"vllm", config.KindEmbedding, []string{`/v1/embeddings {"input":"ping","model":"a \"b\""}`}},
		{"vllm", config.KindRerank, []string{`/v1/rerank {"documents":["ping"],"model":"a \"b\"","query":"ping"}`}},
		{"kokoro", config.KindSpeech, []string{`/v1/audio/speech {"input":"a","model":"a \"b\""}`}},
		{"openai", config.KindImage, nil},
		{"openai", config.KindImageEdit, nil},
	} {
		var got []string
		for _, s := range generationOf(c.kind, mustProfile(t, c.engine), `a "b"`, firstToken) {
			if s.contentType != "application/json" || !json.Valid(s.body) {
				t.Errorf("%s: %s", s.contentType, s.body)
			}
			got = append(got, s.path+" "+string(s.body))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s, %s:\n%s", c.engine, c.kind, diff)
		}
	}
}

// Where answers broke off behind their beginning, the probe of a chat model asks for more than a first token, until one has ended
// well.
func TestProbeOfBrokenAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := generating(t, func(int64) Generation { return GenerationOK })
		var sent []string
		u.mu.Lock()
		u.prober.generate = func(_ context.Context, _ *engine.Profile, s *generationStep, limit time.Duration) (Generation, LastGeneration) {
			sent = append(sent, string(s.body)+" "+limit.String())
			return GenerationFailed, LastGeneration{}
		}
		u.mu.Unlock()
		fail := func(begun bool) {
			for range 5 {
				if l, ok := u.TryLeaseFor("a", PoolText, 0, time.Now()); ok {
					l.FailedFor(FailureSource{Key: "a", Served: "m", Sent: true, Begun: begun, Limit: 2 * time.Second})
					l.Release(OutcomeBadResponse)
				}
			}
			synctest.Wait()
		}
		fail(true)
		time.Sleep(coolDown)
		fail(false) // the trial
		time.Sleep(2*coolDown + 2*trialHeadStart)
		synctest.Wait()
		if len(sent) != 2 {
			t.Fatalf("%d probes", len(sent))
		}
		for _, s := range sent {
			if !strings.Contains(s, `"max_tokens":16`) || !strings.Contains(s, "Count") || !strings.HasSuffix(s, " 10s") {
				t.Error(s)
			}
		}
		l, ok := u.TryLeaseFor("b", PoolText, 0, time.Now().Add(coolDownMax))
		if !ok {
			t.Fatal("no trial")
		}
		l.Release(OutcomeOK)
		time.Sleep(generationPause)
		fail(false)
		if len(sent) != 3 || !strings.Contains(sent[2], `"max_tokens":1,`) || !strings.HasSuffix(sent[2], " 2s") {
			t.Error(sent[2:])
		}
	})
}

// A transcription is asked for with a second of silence that is a sound file.
func TestGenerationOfTranscription(t *testing.T) {
	steps := generationOf(config.KindTranscription, mustProfile(t, "speaches"), "m", firstToken)
	if len(steps) != 1 {
		t.Fatalf("%d steps", len(steps))
	}
	_, boundary, _ := strings.Cut(steps[0].contentType, "boundary=")
	form, err := multipart.NewReader(strings.NewReader(string(steps[0].body)), boundary).ReadForm(1 << 20)
	if err != nil || form.Value["model"][0] != "m" || len(form.File["file"]) != 1 {
		t.Fatalf("%v: %+v", err, form)
	}
	f, err := form.File["file"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wav, _ := io.ReadAll(f)
	if len(wav) != 44+32000 || string(wav[:4]) != "RIFF" || string(wav[8:16]) != "WAVEfmt " || wav[24] != 0x80 || wav[25] != 0x3e || string(wav[36:40]) != "data" {
		t.Errorf("%d bytes: % x", len(wav), wav[:44])
	}
}

// What engines answer, and what it says about them.
func TestGenerationVerdicts(t *testing.T) {
	const stream = "text/event-stream; charset=utf-8"
	const chunk = `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	const last = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	var status atomic.Int64
	var contentType, body atomic.Value
	var hang atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType.Load().(string))
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, body.Load().(string))
		if hang.Load() {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: "a", URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	generate := generationOver(transport)
	for _, c := range []struct {
		name, engine, kind, contentType string
		status                          int
		body                            string
		hang                            bool
		want                            Generation
		reason                          string
	}{
		{"a stream", "vllm", config.KindChat, stream, 200, chunk + last + "data: [DONE]\n\n", false, GenerationOK, ""},
		{"its end is its finish reason", "vllm", config.KindChat, stream, 200, ": ping\n\ndata: null\n\n" + chunk + last, true, GenerationOK, ""},
		{"no end", "vllm", config.KindChat, stream, 200, chunk + "data: [DONE]\n\n", false, GenerationFailed, http1.ReasonInvalid},
		{"silence", "vllm", config.KindChat, stream, 200, chunk, true, GenerationFailed, http1.ReasonTimeout},
		{"no JSON", "vllm", config.KindChat, stream, 200, "data: {oh\n\n", true, GenerationFailed, http1.ReasonInvalid},
		{"an error in the stream", "vllm", config.KindChat, stream, 200, `data: {"error":{"message":"CUDA","code":500}}` + "\n\n", true, GenerationFailed, http1.ReasonInvalid},
		{"no room, in the stream", "vllm", config.KindChat, stream, 200, `data: {"error":{"message":"full","code":"503"}}` + "\n\n", true, GenerationRefused, http1.ReasonInvalid},
		{"whole all the same", "vllm", config.KindChat, "application/json", 200, `{"choices":[{"finish_reason":"length"}]}`, false, GenerationOK, ""},
		{"whole and empty", "vllm", config.KindChat, "application/json", 200, `{"choices":[]}`, false, GenerationFailed, http1.ReasonInvalid},
		{"a page", "vllm", config.KindChat, "text/html", 200, `<html>`, false, GenerationFailed, http1.ReasonInvalid},
		{"500", "vllm", config.KindChat, "text/plain", 500, `oh`, false, GenerationFailed, "status"},
		{"504", "vllm", config.KindChat, "text/plain", 504, ``, false, GenerationFailed, "status"},
		{"a redirect", "vllm", config.KindChat, "text/plain", 302, ``, false, GenerationFailed, "status"},
		{"our key is wrong", "vllm", config.KindChat, "application/json", 401, `{"error":{"message":"no"}}`, false, GenerationFailed, "status"},
		{"full", "vllm", config.KindChat, "application/json", 429, `{}`, false, GenerationRefused, "status"},
		{"loading", "llamacpp", config.KindChat, "application/json", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, false, GenerationRefused, "status"},
		{"not with this template", "vllm", config.KindChat, "application/json", 400, `{"error":{"message":"no chat template"}}`, false, GenerationRejected, "status"},
		{"a client's fault", "llamacpp", config.KindEmbedding, "application/json", 501, `{"error":{"code":501,"message":"no embeddings","type":"not_supported_error"}}`, false, GenerationRejected, "status"},
		{"an embedding", "vllm", config.KindEmbedding, "application/json", 200, `{"data":[{"embedding":[1]}]}`, false, GenerationOK, ""},
		{"none", "vllm", config.KindEmbedding, "application/json", 200, `{"data":[]}`, false, GenerationFailed, http1.ReasonInvalid},
		{"ranks", "vllm", config.KindRerank, "application/json", 200, `{"results":[{"index":0}]}`, false, GenerationOK, ""},
		{"sound", "kokoro", config.KindSpeech, "audio/wav", 200, "RIFF", false, GenerationOK, ""},
		{"no sound", "kokoro", config.KindSpeech, "audio/wav", 200, "", false, GenerationFailed, http1.ReasonInvalid},
		{"text", "speaches", config.KindTranscription, "application/json", 200, `{"text":""}`, false, GenerationOK, ""},
		{"an error for text", "speaches", config.KindTranscription, "application/json", 200, `{"error":"out of memory"}`, false, GenerationFailed, http1.ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			status.Store(int64(c.status))
			contentType.Store(c.contentType)
			body.Store(c.body)
			hang.Store(c.hang)
			profile := mustProfile(t, c.engine)
			limit := 20 * time.Second
			if c.reason == http1.ReasonTimeout {
				limit = 100 * time.Millisecond
			}
			got, told := generate(t.Context(), profile, &generationOf(c.kind, profile, "m", firstToken)[0], limit)
			if got != c.want || told.Reason != c.reason || told.Status != c.status {
				t.Errorf("%v, %+v; want %v, %q", got, told, c.want, c.reason)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	profile := mustProfile(t, "vllm")
	if got, _ := generate(ctx, profile, &generationOf(config.KindChat, profile, "m", firstToken)[0], time.Second); got != GenerationAborted {
		t.Errorf("ended from this side: %v", got)
	}
	s.Close()
	if got, told := generate(t.Context(), profile, &generationOf(config.KindChat, profile, "m", firstToken)[0], time.Second); got != GenerationFailed || told.Reason != http1.ReasonConnect {
		t.Errorf("gone: %v, %+v", got, told)
	}
}

// generating is an upstream whose generation probes are played by verdict, which counts them.
func generating(t *testing.T, verdict func(n int64) Generation) (u *Upstream, sent *atomic.Int64) {
	t.Helper()
	u, sent = watched(t, &playedEngine{code: 200}, "vllm"), new(atomic.Int64)
	synctest.Wait()
	u.mu.Lock()
	u.prober.generate = func(ctx context.Context, _ *engine.Profile, _ *generationStep, limit time.Duration) (Generation, LastGeneration) {
		n := sent.Add(1)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return GenerationAborted, LastGeneration{}
		}
		return verdict(n), LastGeneration{}
	}
	u.mu.Unlock()
	return u, sent
}

// failAlone fails so often for one client.
func (u *Upstream) failAlone(t *testing.T, times int) {
	t.Helper()
	for range times {
		u.failFor(t, 1, OutcomeBadResponse)
	}
}

// A generation probe goes out with the fifth failure, in the slot that this leaves, and at most
// once a second.
func TestProbeGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(int64) Generation { return GenerationOK })
		u.failAlone(t, 4)
		synctest.Wait()
		if sent.Load() != 0 {
			t.Fatal("a probe after four failures")
		}
		u.failAlone(t, 20)
		synctest.Wait()
		if sent.Load() != 1 || u.inFlight() != 1 {
			t.Fatalf("%d probes under way in %d slots", sent.Load(), u.inFlight())
		}
		time.Sleep(200 * time.Millisecond)
		if u.inFlight() != 0 || u.Doubted() {
			t.Errorf("%d slots are held, doubted %t", u.inFlight(), u.Doubted())
		}
		u.failAlone(t, 20)
		synctest.Wait()
		if sent.Load() != 1 {
			t.Error("a second probe within a second")
		}
		time.Sleep(time.Second)
		u.failAlone(t, 1)
		synctest.Wait()
		if sent.Load() != 2 {
			t.Error("no probe after a second, with the row still there")
		}
		time.Sleep(200 * time.Millisecond)
		if u.Breaker(time.Now()) != BreakerClosed {
			t.Error("one client has opened the breaker")
		}
		if st := u.Status(time.Now()); st.GenerationProbes["ok"] != 2 || st.Generation == nil || st.Generation.Result != "ok" || st.Generation.Milliseconds != 100 {
			t.Errorf("the status page says %v, %+v", st.GenerationProbes, st.Generation)
		}
	})
}

// Two failures are enough where no other call comes to an engine that routing avoids: a generation
// probe goes out after a while.
func TestProbeDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(n int64) Generation { return []Generation{GenerationOK, GenerationFailed}[n-1] })
		u.failAlone(t, 1)
		time.Sleep(10 * doubtPause)
		if sent.Load() != 0 {
			t.Fatal("a probe after one failure")
		}
		u.failAlone(t, 1)
		time.Sleep(doubtPause - time.Millisecond)
		u.failAlone(t, 1)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if sent.Load() != 0 {
			t.Fatal("a probe while calls come")
		}
		time.Sleep(doubtPause - 2*time.Millisecond)
		synctest.Wait()
		if sent.Load() != 0 {
			t.Fatal("a probe before its time")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if sent.Load() != 1 || u.inFlight() != 1 {
			t.Fatalf("%d probes in %d slots", sent.Load(), u.inFlight())
		}
		time.Sleep(generationPause)
		if u.Breaker(time.Now()) != BreakerClosed || u.Doubted() || u.inFlight() != 0 {
			t.Fatal("the probe passed, and the engine is in doubt")
		}
		u.failAlone(t, 2)
		l, _ := u.TryLease(PoolText, 0, time.Now())
		l.Release(OutcomeOK)
		time.Sleep(2 * doubtPause)
		if sent.Load() != 1 {
			t.Fatal("a probe after a success")
		}
		u.failAlone(t, 2)
		time.Sleep(2 * doubtPause)
		if sent.Load() != 2 || u.Breaker(time.Now()) != BreakerOpen {
			t.Errorf("%d probes, breaker %v", sent.Load(), u.Breaker(time.Now()))
		}
	})
}

// A failed trial bars its client from the next one: a generation probe is it, whoever asks
// meanwhile.
func TestGenerationProbeIsTheTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(n int64) Generation {
			return []Generation{GenerationFailed, GenerationFailed, GenerationRefused, GenerationOK}[n-1]
		})
		u.failAlone(t, 5)
		time.Sleep(200 * time.Millisecond)
		if u.Breaker(time.Now()) != BreakerOpen {
			t.Fatal("the probe has failed, but the breaker is not open")
		}
		time.Sleep(coolDown)
		if sent.Load() != 1 {
			t.Fatal("a probe where any call may be the trial")
		}
		u.failAlone(t, 1) // the trial
		if u.Breaker(time.Now()) != BreakerOpen {
			t.Fatal("the trial has failed, but the breaker is not open")
		}
		time.Sleep(2*coolDown + trialHeadStart/2)
		if sent.Load() != 1 {
			t.Fatal("other clients' calls have no time to be the trial")
		}
		time.Sleep(trialHeadStart)
		if sent.Load() != 2 || u.inFlight() != 1 {
			t.Fatalf("%d probes, %d in flight", sent.Load(), u.inFlight())
		}
		time.Sleep(time.Second) // has failed, too
		if u.Breaker(time.Now()) != BreakerOpen {
			t.Fatal("the second trial has failed, but the breaker is not open")
		}
		time.Sleep(4*coolDown - 500*time.Millisecond) // no room
		if sent.Load() != 3 || u.Breaker(time.Now()) != BreakerHalfOpen {
			t.Fatalf("%d probes, breaker %v", sent.Load(), u.Breaker(time.Now()))
		}
		now := time.Now()
		if _, ok := u.TryLeaseFor("client1", PoolText, 0, now); ok || u.EligibleFor("client1", StateUp, At(now)) || !u.EligibleFor("client2", StateUp, At(now)) {
			t.Error("the client whose trial failed may be the next one, or another may not")
		}
		time.Sleep(2 * time.Second)
		if sent.Load() != 4 || u.Breaker(time.Now()) != BreakerClosed || u.trial.Load() || u.inFlight() != 0 {
			t.Errorf("%d probes, breaker %v, trial %t, %d in flight", sent.Load(), u.Breaker(time.Now()), u.trial.Load(), u.inFlight())
		}
		time.Sleep(time.Minute)
		if sent.Load() != 4 {
			t.Error("probes go on behind a closed breaker")
		}
	})
}

// A probe that is under way when its upstream retires ends, and gives its slot back.
func TestGenerationProbeEndsWithItsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, sent := generating(t, func(int64) Generation { return GenerationFailed })
		u.failAlone(t, 5)
		synctest.Wait()
		u.retiring.Store(true)
		u.prober.stop()
		synctest.Wait()
		if sent.Load() != 1 || u.inFlight() != 0 || u.generated[GenerationAborted].Get() != 1 || u.openUntil.Load() != breakerClosed {
			t.Errorf("%d probes, %d in flight", sent.Load(), u.inFlight())
		}
	})
}

// A probe that waits in vain convicts a silent engine alone: one that goes on with other calls has merely had no turn for it.
func TestGenerationProbeHasNoTurn(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		answers int // how often a piece of the answer to another call comes during the probe
		others  string
		want    Breaker
	}{
		{name: "silence", status: 200, want: BreakerOpen},
		{name: "a stream goes on", status: 200, answers: 1, want: BreakerClosed},
		{name: "many streams go on", status: 200, answers: 5, want: BreakerClosed},
		{name: "errors alone", status: 500, answers: 3, want: BreakerOpen},
		{name: "others wait", status: 200, others: "vllm:num_requests_running 4\nvllm:num_requests_waiting 9\n", want: BreakerClosed},
		{name: "only this edge's", status: 200, others: "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n", want: BreakerOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				played := &playedEngine{code: 200, pages: map[string]string{}}
				if c.others != "" {
					played.pages["/metrics"] = c.others
				}
				u := watched(t, played, "vllm")
				synctest.Wait()
				l, ok := u.TryLease(PoolText, 0, time.Now())
				if !ok {
					t.Fatal("no lease")
				}
				u.mu.Lock()
				u.prober.generate = func(_ context.Context, _ *engine.Profile, _ *generationStep, limit time.Duration) (Generation, LastGeneration) {
					for range c.answers {
						u.answers.BodyCame(c.status)
					}
					time.Sleep(limit)
					return GenerationFailed, LastGeneration{Reason: http1.ReasonTimeout}
				}
				u.mu.Unlock()
				u.failAlone(t, 5)
				time.Sleep(generationLimit + 100*time.Millisecond)
				if got := u.Breaker(time.Now()); got != c.want {
					t.Errorf("breaker %v, want %v; the probe: %+v", got, c.want, u.Status(time.Now()).Generation)
				}
				l.Release(OutcomeOK)
			})
		})
	}
}
