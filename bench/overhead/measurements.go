package overhead

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/result"
)

func (c *Cmd) selectedMeasurements() ([]measurement, error) {
	all := slices.Concat(c.saturationMeasurements(), c.requestMeasurements(), c.streamMeasurements(), c.memoryMeasurements(), c.reloadMeasurements())
	var out []measurement
	for _, name := range c.Tests {
		i := slices.IndexFunc(all, func(t measurement) bool { return t.name == name })
		if i < 0 {
			var names []string
			for _, t := range all {
				names = append(names, t.name)
			}
			return nil, exit.Usagef("unknown test %q: want one of %s", name, strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// requestMeasurements returns the measurements in which responses are not streamed.
func (c *Cmd) requestMeasurements() []measurement {
	request := c.unstreamedOptions()
	prompt, image := request, request
	prompt.MaxConcurrency, prompt.InputLen = []int{16}, "25600"
	image.MaxConcurrency, image.Images = []int{8}, imagesPerMegabyte
	latency := func(p float64) measuredRow {
		return measuredRow{
			name: "latency_p" + result.PercentileName(p), unit: "ms",
			text:  fmt.Sprintf("end to end at %s requests/s, p%s", formatNumber(c.Rate), result.PercentileName(p)),
			value: func(m *targetResult) float64 { return quantile(m.result, result.E2EL, p) },
		}
	}
	line := func(name, text string) []measuredRow {
		return []measuredRow{{name: name, unit: "µs", text: text, value: cpuPerRequest}}
	}
	return []measurement{
		{
			name: "request", options: request,
			rows: line("request", "CPU of a request: 1 KB in, 1 KB out, not streamed, 32 at once"),
		},
		{name: "prompt", options: prompt, rows: line("prompt", "CPU of a request with a prompt of 100 KB, 16 at once")},
		{
			name: "image", engine: []string{"--max-model-len=1000000"}, options: image,
			rows: line("image", "CPU of a request with images of 1 MB, 8 at once"),
		},
		{name: "latency", options: c.fixedRateOptions(), direct: true, timed: true, rows: []measuredRow{latency(50), latency(99)}},
	}
}

// unstreamedOptions returns a load whose responses are not streamed.
func (c *Cmd) unstreamedOptions() load.Options {
	return load.Options{
		MaxConcurrency: []int{32}, Duration: load.PositiveDuration(c.Duration), NoStream: true, InputLen: "256",
		OutputLen: "200", IgnoreEOS: true,
	}
}

// fixedRateOptions returns a load without streaming at a fixed rate. A fixed rate reveals queueing.
func (c *Cmd) fixedRateOptions() load.Options {
	o := c.unstreamedOptions()
	o.MaxConcurrency, o.RequestRate, o.Constant = nil, []string{formatNumber(c.Rate)}, true
	o.Warmup = min(c.Duration/4, time.Second)
	return o
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func quantile(r *result.Result, measure string, p float64) float64 {
	return r.Penstock.Total.Latency[measure].Quantile(p)
}

// imagesPerMegabyte is the number of images, as created by package load, in a megabyte.
const imagesPerMegabyte = 16

const shortAnswerTokens = 8

func (c *Cmd) streamMeasurements() []measurement {
	stream := load.Options{
		MaxConcurrency: []int{c.Streams}, NumPrompts: load.RequestCount(c.Streams), InputLen: "64",
		OutputLen: "200", IgnoreEOS: true,
	}
	rate := formatNumber(c.Rate / 2)
	short := load.Options{
		RequestRate: []string{rate}, Constant: true, Duration: load.PositiveDuration(c.Duration),
		InputLen: "64", OutputLen: strconv.Itoa(shortAnswerTokens), IgnoreEOS: true,
	}
	paced := []string{"--token-rate=50"}
	line := func(name, text string, value func(m *targetResult) float64) []measuredRow {
		return []measuredRow{{name: name, unit: "µs", text: text, value: value}}
	}
	return []measurement{
		{
			name: "token", engine: paced, options: stream,
			rows: line("token", fmt.Sprintf("CPU of a streamed token: %d streams, a token each 20 ms", c.Streams), cpuPerToken),
		},
		{
			name: "messages", engine: paced, options: stream, translated: "messages",
			rows: line("messages", "CPU of such a token, Messages to chat and back (others: chat)", cpuPerToken),
		},
		{
			name: "responses", engine: paced, options: stream, translated: "responses",
			rows: line("responses", "CPU of such a token, Responses to chat and back (others: chat)", cpuPerToken),
		},
		{
			name: "short", engine: []string{"--token-rate=200"}, options: short, timed: true,
			rows: append(line("short", fmt.Sprintf("CPU of a stream of %d tokens, %s a second", shortAnswerTokens, rate), cpuPerRequest),
				measuredRow{
					name: "short_ttft_p99", unit: "ms", text: "first token of such a stream, p99",
					value: func(m *targetResult) float64 { return quantile(m.result, result.TTFT, 99) },
				}),
		},
	}
}

func (c *Cmd) memoryMeasurements() []measurement {
	// All streams are open before the first one ends. They are opened over the course of a second,
	// so that no stream fails on a busy machine.
	hold := load.Options{
		MaxConcurrency: []int{c.Hold}, NumPrompts: load.RequestCount(c.Hold), Spread: time.Second,
		InputLen: "64", OutputLen: "4", IgnoreEOS: true,
	}
	slow := []string{"--token-rate=1"}
	line := func(name, text string) []measuredRow {
		text = fmt.Sprintf("resident memory of %s, of %d", text, c.Hold)
		return []measuredRow{{name: name, unit: "KiB", text: text, value: kilobytesPerConnection}}
	}
	return []measurement{
		{name: "memory", engine: slow, options: hold, rows: line("memory", "a held stream")},
		{name: "tls", engine: slow, options: hold, tls: true, rows: line("tls", "a held stream under TLS")},
		{
			name: "connection", rows: line("connection", "an idle connection"),
			perform: func(ctx context.Context, s *startedTarget) (*targetResult, error) {
				return s.measureHeldConnections(ctx, c.Hold)
			},
		},
		{
			name: "idle", perform: func(ctx context.Context, s *startedTarget) (*targetResult, error) { return s.measureIdle(ctx) },
			rows: []measuredRow{{
				name: "idle", unit: "MiB", text: "resident memory of a process without clients",
				value: func(m *targetResult) float64 { return m.before / (1 << 20) },
			}},
		},
	}
}

// reloadMeasurements returns the measurements of reloads, which no target except the edge supports.
func (c *Cmd) reloadMeasurements() []measurement {
	size := fmt.Sprintf("with %d keys and %d upstreams", manyKeys, manyUpstreams)
	line := func(name, text string, value func(m *targetResult) float64) measuredRow {
		return measuredRow{name: name, unit: "ms", text: text, value: value}
	}
	return []measurement{
		{
			name: "reload", useLargeConfig: true, edgeOnly: true,
			perform: func(ctx context.Context, s *startedTarget) (*targetResult, error) { return s.measureReloads(ctx) },
			rows: []measuredRow{line("reload", "a reload "+size, func(m *targetResult) float64 {
				return float64(m.took.Microseconds()) / 1000
			})},
		},
		{
			name: "reloading", useLargeConfig: true, edgeOnly: true, timed: true, options: c.fixedRateOptions(),
			perform: func(ctx context.Context, s *startedTarget) (*targetResult, error) {
				return s.measureLoadDuringReloads(ctx)
			},
			rows: []measuredRow{
				line("calm_p99", fmt.Sprintf("end to end at %s requests/s %s, p99", formatNumber(c.Rate), size),
					func(m *targetResult) float64 { return quantile(m.undisturbed, result.E2EL, 99) }),
				line("reloading_p99", "the same, while it reloads each second, p99",
					func(m *targetResult) float64 { return quantile(m.result, result.E2EL, 99) }),
			},
		},
	}
}
