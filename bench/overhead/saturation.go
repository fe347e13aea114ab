package overhead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"penstock/bench/overhead/rawload"
	"penstock/bench/process"
)

// rawConnectionCount is the number of connections of the client that package rawload provides.
const rawConnectionCount = 32

// saturationMeasurements returns the measurements of small requests at three rates, with the engine
// and the client of package rawload. The measurements show how a proxy behaves at its limit and
// below it.
func (c *Cmd) saturationMeasurements() []measurement {
	at := func(name, when string, rate float64) measurement {
		load := rawload.Load{Conns: rawConnectionCount, Rate: rate, Duration: c.Duration}
		line := func(row, unit, text string, value func(m *targetResult) float64) measuredRow {
			return measuredRow{name: name + row, unit: unit, text: text, value: value}
		}
		return measurement{name: name, raw: &load, rows: []measuredRow{
			line("", "µs", "CPU of a 1 KB request, "+when, func(m *targetResult) float64 { return m.cpu / m.rawCompleted() }),
			line("_user", "µs", "of that in user mode", func(m *targetResult) float64 { return m.cpu * m.userShare / m.rawCompleted() }),
			line("_kernel", "µs", "of that in the kernel", func(m *targetResult) float64 { return m.cpu * (1 - m.userShare) / m.rawCompleted() }),
			line("_busy", "%", "the proxy's processor is busy", (*targetResult).proxyCPUPercent),
		}}
	}
	saturated, light := at("saturated", "saturated", 0), at("light", "at "+formatNumber(c.Rate)+" a second", c.Rate)
	saturated.rows = append(saturated.rows, measuredRow{
		name: "saturated_rate", unit: "1/s", text: "requests a second",
		value: func(m *targetResult) float64 { return m.rawCompleted() / m.raw.Elapsed.Seconds() },
	})
	light.direct = true
	for _, p := range []float64{50, 99} {
		light.rows = append(light.rows, measuredRow{
			name: fmt.Sprintf("light_p%g", p), unit: "ms", text: fmt.Sprintf("end to end, p%g", p), withoutProxy: true,
			value: func(m *targetResult) float64 { return float64(m.raw.Percentile(p)) / float64(time.Millisecond) },
		})
	}
	return []measurement{saturated, at("half", "at "+formatNumber(c.HalfRate)+" a second", c.HalfRate), light}
}

func (m *targetResult) rawCompleted() float64 { return float64(max(1, m.raw.Completed)) }

// proxyCPUPercent returns how busy the proxy's CPU was.
func (m *targetResult) proxyCPUPercent() float64 {
	return 100 * m.cpu / float64(m.raw.Elapsed.Microseconds())
}

// minSaturatedPercent is the minimum CPU use of a saturated proxy, in percent. If the proxy is less
// busy, the engine or the client was the limit.
const minSaturatedPercent = 95

// rawDistrustReason is the part of distrustReason for a raw load.
func (t *measurement) rawDistrustReason(m *targetResult) string {
	switch due := t.raw.Rate * m.raw.Elapsed.Seconds(); {
	case t.raw.Rate == 0 && m.proxyCPUPercent() < minSaturatedPercent:
		return fmt.Sprintf("the proxy was busy for %.0f %% of the time, so client and engine, or other processes, were the limit", m.proxyCPUPercent())
	case float64(m.raw.Completed) < 0.98*due-rawConnectionCount:
		return fmt.Sprintf("%d of %.0f requests were answered", m.raw.Completed, due)
	}
	return ""
}

// measureRaw measures a target between the engine and the client of package rawload.
func (l *testBench) measureRaw(ctx context.Context, target string, t *measurement) (*targetResult, error) {
	loop, err := rawload.Start()
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	s := &startedTarget{test: t, target: target, key: l.key, url: "http://" + loop.Address()}
	if target != "direct" {
		if err := l.startTarget(ctx, s, loop.Address()); err != nil {
			return nil, err
		}
		defer s.proxy.Kill()
	}
	load := *t.raw
	_, load.Address, _ = strings.Cut(s.url, "://")
	load.Request = rawload.ChatRequest(load.Address, s.key)
	warmup := load
	warmup.Duration = min(load.Duration/4, time.Second)
	if _, err := loop.Run(ctx, &warmup); err != nil {
		return nil, err
	}
	if s.proxy == nil {
		r, err := loop.Run(ctx, &load)
		return &targetResult{raw: r}, err
	}
	pid := s.proxy.Cmd.Process.Pid
	begin, err := process.ReadUsage(pid)
	if err != nil {
		return nil, err
	}
	r, err := loop.Run(ctx, &load)
	if err != nil {
		return nil, err
	}
	end, err := process.ReadUsage(pid)
	m := &targetResult{raw: r, cpu: end.CPU - begin.CPU, userShare: end.UserShare(begin)}
	if err == nil && r.Completed == 0 {
		err = errors.New("no request was answered")
	}
	return m, err
}
