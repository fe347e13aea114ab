package observe

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// TestVariables: a variable that is malformed or does not count is told once at the start, with what to write and without its value,
// and keeps no edge from starting.
func TestVariables(t *testing.T) {
	for _, name := range os.Environ() {
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, c := range []struct {
		variable, told string
		withoutTracing bool
	}{
		{"OTEL_RESOURCE_ATTRIBUTES=a=1,b=2%20c", "", false},
		{"OTEL_RESOURCE_ATTRIBUTES=a=1,s3cret", "OTEL_RESOURCE_ATTRIBUTES: entry 2 is left out", false},
		{"OTEL_RESOURCE_ATTRIBUTES=s3cret=%zz", "entry 1", false},
		{"OTEL_RESOURCE_ATTRIBUTES==s3cret", "entry 1", false},
		{"OTEL_RESOURCE_ATTRIBUTES=s3cret", "", true},
		{"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20x", "", false},
		{"OTEL_EXPORTER_OTLP_HEADERS=x=1,a b=s3cret", "OTEL_EXPORTER_OTLP_HEADERS: entry 2 is left out", false},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS=s3cret", "entry 1", false},
		{"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "", false},
		{"OTEL_EXPORTER_OTLP_COMPRESSION=zstd", "write gzip or none", false},
		{"OTEL_EXPORTER_OTLP_TIMEOUT=10s", "write milliseconds", false},
		{"OTEL_EXPORTER_OTLP_TIMEOUT=-1", "write milliseconds", false},
		{"OTEL_EXPORTER_OTLP_CLIENT_KEY=s3cret", "set both", false},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "as http/protobuf", false},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "", false},
		{"OTEL_TRACES_EXPORTER=otlp", "", false},
		{"OTEL_TRACES_EXPORTER=none", "OTEL_TRACES_EXPORTER does not count", false},
		{"OTEL_SDK_DISABLED=true", "leave tracing.otlp out", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=s3cret:4317", "", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=s3cret:4317", "write tracing: { otlp: URL }", true},
		{"OTEL_TRACES_SAMPLER=s3cret", "write always_on, always_off or traceidratio", false},
		{"OTEL_TRACES_SAMPLER=s3cret", "", true},
		{"OTEL_TRACES_SAMPLER=ParentBased_Always_On", "", false},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.25", "", false},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=25", "a share from 0 to 1", false},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=-1", "a share from 0 to 1", false},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=10%", "a share from 0 to 1", false},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", "a share from 0 to 1", false},
	} {
		t.Run(c.variable, func(t *testing.T) {
			for pair := range strings.SplitSeq(c.variable, " OTEL_") {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv("OTEL_"+strings.TrimPrefix(name, "OTEL_"), value)
			}
			core, logged := observer.New(zap.DebugLevel)
			log, tracing := zap.New(core), config.Tracing{}
			if !c.withoutTracing {
				tracing.OTLP = "http://127.0.0.1:1"
			}
			WarnOfVariables(tracing, log)
			if !c.withoutTracing {
				tracer, err := NewTracer(tracing, "1", "i", log, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := tracer.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			all := logged.All()
			if c.told == "" {
				if len(all) != 0 {
					t.Errorf("the log has %v", all)
				}
				return
			}
			if len(all) != 1 || !strings.Contains(all[0].Message, c.told) || strings.Contains(all[0].Message, "s3cret") || len(all[0].Context) != 0 {
				t.Errorf("the log has %v, want %q", all, c.told)
			}
		})
	}
}
