package guard_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"penstock/proxy/telemetry/guard"
)

const secret = "CANARY-guard"

// TestCatch checks that a panic ends only the functions below Catch, is counted for its place, and
// is logged without its value. It also checks that panics in after and in the log are caught.
func TestCatch(t *testing.T) {
	var log bytes.Buffer
	g := guard.New()
	g.LogTo(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.ErrorLevel)))
	followed := false
	func() {
		defer g.Catch(guard.PlaceStream, func() {
			followed = true
			panic(secret)
		})
		panic(secret)
	}()
	if n := g.PanicCount(guard.PlaceStream); n != 2 || !followed || g.PanicCount(guard.PlaceEnd) != 0 {
		t.Errorf("%d panics, followed: %v", n, followed)
	}
	if text := log.String(); strings.Contains(text, secret) || strings.Count(text, `"where":"stream"`) != 2 || !strings.Contains(text, "guard_test.TestCatch") {
		t.Errorf("logged %s, want two places in stream and no secret", text)
	}
	g.LogTo(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), panickingWriter{}, zap.ErrorLevel)))
	g.RunWithRecover(guard.PlaceEnd, func() { panic(secret) })
	if n := g.PanicCount(guard.PlaceEnd); n != 1 {
		t.Errorf("%d panics with a log that panics", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a guard that is not there has caught a panic")
		}
	}()
	(*guard.Guard)(nil).RunWithRecover(guard.PlaceEnd, func() { panic(secret) })
}

// panickingWriter is a log destination that panics.
type panickingWriter struct{}

func (panickingWriter) Write([]byte) (int, error) { panic(secret) }
func (panickingWriter) Sync() error               { return nil }

// TestLoop checks that the pauses grow to ten seconds, and are short again after a long run. The
// loop must end when f returns or stop is closed.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, stop := guard.New(), make(chan struct{})
		var begun []time.Time
		g.Loop(stop, guard.PlaceProbe, func() {
			begun = append(begun, time.Now())
			switch len(begun) {
			case 10:
				time.Sleep(2 * time.Minute)
			case 12:
				return
			}
			panic(secret)
		})
		want := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 120100, 200}
		for i, w := range want {
			if d := begun[i+1].Sub(begun[i]); d != w*time.Millisecond {
				t.Errorf("pause %d is %v, want %v", i, d, w*time.Millisecond)
			}
		}
		if n := g.PanicCount(guard.PlaceProbe); len(begun) != 12 || n != 11 {
			t.Errorf("%d runs, %d panics", len(begun), n)
		}
		runs := 0
		var ended sync.WaitGroup
		ended.Go(func() {
			g.Loop(stop, guard.PlaceProbe, func() {
				runs++
				panic(secret)
			})
		})
		time.Sleep(250 * time.Millisecond)
		close(stop)
		ended.Wait()
		if runs != 2 {
			t.Errorf("%d runs until the stop", runs)
		}
	})
}

// TestStorm checks that ten panics at one place within ten seconds are a storm, and that the storm
// ends after thirty seconds without a panic.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard.New()
		bad := func(place string, times int, apart time.Duration) {
			for range times {
				time.Sleep(apart)
				g.RunWithRecover(place, func() { panic(secret) })
			}
		}
		want := func(what, place string) {
			t.Helper()
			if s := g.StormPlace(time.Now()); s != place {
				t.Errorf("%s: %q, want %q", what, s, place)
			}
		}
		want("at first", "")
		bad(guard.PlaceProbe, 9, time.Second)
		bad(guard.PlaceStream, 9, 0)
		want("nine of two places each", "")
		bad(guard.PlaceProbe, 1, time.Second)
		want("ten within ten seconds", guard.PlaceProbe)
		time.Sleep(29 * time.Second)
		want("29 s later", guard.PlaceProbe)
		bad(guard.PlaceProbe, 1, 0)
		time.Sleep(29 * time.Second)
		want("29 s after one more", guard.PlaceProbe)
		time.Sleep(time.Second)
		want("30 s", "")
		bad(guard.PlaceProbe, 30, 1200*time.Millisecond)
		want("slowly", "")
	})
}
