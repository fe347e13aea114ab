package observe

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"penstock/config"
)

// NewLogger returns the process log, which writes to sink. Stack traces and callers are disabled,
// because they do not help an operator.
func NewLogger(l config.Log, sink zapcore.WriteSyncer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(l.Level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: %w", l.Level, err)
	}
	ec := zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", MessageKey: "msg",
		EncodeTime:     zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00"),
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder, // writes durations with a unit
	}
	enc := zapcore.NewJSONEncoder(ec)
	if l.Format == config.LogFormatConsole {
		ec.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		ec.ConsoleSeparator = "  "
		enc = zapcore.NewConsoleEncoder(ec)
	}
	at := zap.NewAtomicLevelAt(level)
	return zap.New(&leveledCore{zapcore.NewCore(enc, sink, at), at}), nil
}

// leveledCore is a core whose level a reload can change (Calls.SetLog).
type leveledCore struct {
	zapcore.Core
	level zap.AtomicLevel
}

// The fields after the first baseFieldCount appear only if they have a value.
const (
	baseFieldCount = 20
	maxFieldCount  = baseFieldCount + 16
)

var fieldPool = sync.Pool{New: func() any { return new([maxFieldCount]zap.Field) }}

type accessLog struct {
	log     *zap.Logger
	console bool // whether to write lines for a human reader
}

func (a accessLog) setLevel(level string) {
	if core, ok := a.log.Core().(*leveledCore); ok {
		_ = core.level.UnmarshalText([]byte(level))
	}
}

// logLevel returns warn if the service failed the call, so that a filter finds such calls
// regardless of their status. For example, the status of a broken stream is 200.
func (o Outcome) logLevel() zapcore.Level {
	if o.Failed() {
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

func (a accessLog) write(r *Record, now time.Time) {
	level := r.Outcome.logLevel()
	if a.console {
		if ce := a.log.Check(level, string(appendConsole(nil, r, now))); ce != nil {
			ce.Write()
		}
		return
	}
	ce := a.log.Check(level, "call")
	if ce == nil {
		return
	}
	f := fieldPool.Get().(*[maxFieldCount]zap.Field)
	*f = [maxFieldCount]zap.Field{
		zap.ByteString("request_id", r.RequestID[:]),
		zap.String("key", orDash(r.Key)),
		zap.String("dialect", r.Dialect),
		zap.String("model", orDash(r.Model)),
		zap.String("upstream", orDash(r.Upstream)),
		zap.String("pool", orDash(r.Pool)),
		zap.Bool("stream", r.Stream),
		zap.Int("status", r.Status),
		zap.String("code", orDash(r.Code)),
		zap.String("outcome", string(r.Outcome)),
		zap.Int("attempts", r.Attempts),
		zap.Int("prompt_tokens", r.PromptTokens),
		zap.Int("completion_tokens", r.CompletionTokens),
		zap.Bool("tokens_estimated", r.TokensEstimated),
		zap.Float64("queue_ms", milliseconds(r.Queue)),
		zap.Float64("ttft_ms", milliseconds(r.TTFT)),
		zap.Float64("duration_ms", milliseconds(now.Sub(r.Start))),
		zap.Int64("bytes_in", r.BytesIn),
		zap.Int64("bytes_out", r.BytesOut),
		zap.String("client", orDash(r.Client)),
	}
	fields := f[:baseFieldCount]
	if r.CachedTokens > 0 {
		fields = append(fields, zap.Int("cached_tokens", r.CachedTokens))
	}
	if r.Session != (SessionHash{}) {
		fields = append(fields, zap.String("session", r.Session.String()))
	}
	if r.Choice != nil {
		fields = append(fields, zap.String("choice", r.Choice.Reason), zap.Int("expected_cached_tokens", r.ExpectedCached))
	}
	if r.Cause != "" {
		fields = append(fields, zap.String("cause", r.Cause))
	}
	if r.EngineStatus != 0 {
		fields = append(fields, zap.Int("engine_status", r.EngineStatus))
	}
	if r.Outcome == OutcomeClientGone {
		fields = append(fields, zap.String("left_in_phase", string(r.Phase)))
	}
	if len(r.Failed) > 0 {
		fields = append(fields, zap.Objects("failed_attempts", r.Failed))
	}
	if len(r.Dropped) > 0 {
		fields = append(fields, zap.String("dropped", strings.Join(r.Dropped, ",")))
	}
	if r.Resumed > 0 {
		fields = append(fields, zap.Int("resumed", r.Resumed))
	}
	if r.Asked != "" {
		fields = append(fields, zap.String("asked_model", r.Asked))
	}
	if r.Nearest != "" {
		fields = append(fields, zap.String("nearest_model", r.Nearest))
	}
	if r.Class != "" {
		fields = append(fields, zap.String("class", r.Class))
	}
	if r.Tier > 0 {
		fields = append(fields, zap.Int("tier", r.Tier))
	}
	if r.Arm != "" {
		fields = append(fields, zap.String("arm", r.Arm))
	}
	if r.MissedArm != "" {
		fields = append(fields, zap.String("missed_arm", r.MissedArm))
	}
	if r.ProxyRequestID != "" {
		fields = append(fields, zap.String("proxy_request_id", r.ProxyRequestID))
	}
	if r.Hooks != nil {
		fields = append(fields, zap.Float64("hook_ms", milliseconds(r.Hooks.Took)))
		if r.Hooks.Detail != "" {
			fields = append(fields, zap.String("hook_detail", r.Hooks.Detail))
		}
	}
	ce.Write(fields...)
	*f = [maxFieldCount]zap.Field{} // the pool must not retain the record
	fieldPool.Put(f)
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (a FailedAttempt) MarshalLogObject(o zapcore.ObjectEncoder) error {
	o.AddString("upstream", a.Upstream)
	o.AddString("cause", a.Cause)
	if a.EngineStatus != 0 {
		o.AddInt("engine_status", a.EngineStatus)
	}
	o.AddFloat64("after_ms", milliseconds(a.After))
	o.AddFloat64("took_ms", milliseconds(a.Took))
	return nil
}

// appendConsole appends the access line for a terminal. The outcome of a failed call comes first,
// because the status of a broken stream is 200:
//
//	200  chat  llama → gpu-a  stream  1204+310 tok  ttft 0.21s  4.02s  req_…
//	limited  429  chat  llama → -  capacity_full  0.00s  req_…
//	client_error  404  chat  unknown model, like llama → -  model_not_found  0.00s  req_…
//	stream_broken  200  chat  llama → gpu-a  upstream_failed  (gpu-a: error_event 200)  0.10s  req_…
func appendConsole(dst []byte, r *Record, now time.Time) []byte {
	if r.Outcome != OutcomeOK {
		dst = append(dst, string(r.Outcome)+"  "...)
	}
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, "  "+r.Dialect+"  "+r.loggedModel()...)
	dst = append(dst, " → "+orDash(r.Upstream)...)
	if r.Attempts > 1 {
		dst = append(dst, " (second attempt)"...)
	}
	if r.Resumed > 0 {
		dst = append(dst, " (resumed)"...)
	}
	if r.Asked != "" {
		dst = append(dst, " (for "+r.Asked+")"...)
	}
	if r.Class != "" {
		dst = append(dst, " ("+r.Class+")"...)
	}
	if r.Tier > 0 {
		dst = append(dst, " (tier "+strconv.Itoa(r.Tier)+")"...)
	}
	if r.Arm != "" && r.Arm != NoArm {
		dst = append(dst, " (arm "+r.Arm+")"...)
	}
	if r.MissedArm != "" {
		dst = append(dst, " (for arm "+r.MissedArm+")"...)
	}
	if r.Outcome != OutcomeOK {
		dst = append(dst, "  "+orDash(r.Code)...)
	}
	for i := range r.Failed {
		a := &r.Failed[i]
		dst = append(dst, "  ("+a.Upstream+": "+a.Cause...)
		if a.EngineStatus != 0 {
			dst = append(dst, ' ')
			dst = strconv.AppendInt(dst, int64(a.EngineStatus), 10)
		}
		dst = append(dst, ')')
	}
	if r.Stream {
		dst = append(dst, "  stream"...)
	}
	if r.PromptTokens+r.CompletionTokens > 0 {
		dst = append(dst, "  "+strconv.Itoa(r.PromptTokens)+"+"+strconv.Itoa(r.CompletionTokens)+" tok"...)
	}
	if r.Stream && r.TTFT > 0 {
		dst = append(dst, "  ttft "...)
		dst = strconv.AppendFloat(dst, r.TTFT.Seconds(), 'f', 2, 64)
		dst = append(dst, 's')
	}
	dst = append(dst, "  "...)
	dst = strconv.AppendFloat(dst, now.Sub(r.Start).Seconds(), 'f', 2, 64)
	dst = append(dst, "s  "...)
	return append(dst, r.RequestID[:]...)
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
