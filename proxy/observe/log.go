package observe

import (
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"penstock/config"
)

// NewLogger builds the process log of l over sink. Fields are typed and fixed; stack traces and callers are off, since
// they say nothing to an operator.
func NewLogger(l config.Log, sink zapcore.WriteSyncer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(l.Level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: %w", l.Level, err)
	}
	ec := zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", MessageKey: "msg",
		EncodeTime:     zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00"),
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.MillisDurationEncoder,
	}
	enc := zapcore.NewJSONEncoder(ec)
	if l.Format == "console" {
		enc = zapcore.NewConsoleEncoder(ec)
	}
	return zap.New(zapcore.NewCore(enc, sink, level)), nil
}

// writeLine writes the access line of r: a fixed list of fields in a fixed order.
func writeLine(log *zap.Logger, r *Record, now time.Time) {
	ce := log.Check(zapcore.InfoLevel, "call")
	if ce == nil {
		return
	}
	ce.Write(
		zap.String("request_id", r.RequestID),
		zap.String("key", dash(r.Key)),
		zap.String("dialect", r.Dialect),
		zap.String("model", dash(r.Model)),
		zap.String("upstream", dash(r.Upstream)),
		zap.String("pool", dash(r.Pool)),
		zap.Bool("stream", r.Stream),
		zap.Int("status", r.Status),
		zap.String("code", dash(r.Code)),
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
		zap.String("client", dash(r.Client)),
	)
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
