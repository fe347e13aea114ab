package observe

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/http1/httptoken"
)

// WarnOfVariables logs what the standard variables of OpenTelemetry say that is malformed or does
// not count, and what to write. Their values are not logged: headers hold credentials.
func WarnOfVariables(c config.Tracing, log *zap.Logger) {
	warnings := whatDoesNotCount(c)
	if c.OTLP != "" {
		warnings = append(warnings, whatIsMalformed(c)...)
	}
	for _, w := range warnings {
		log.Warn(w)
	}
}

// whatDoesNotCount lists the variables that elsewhere switch traces on or off.
func whatDoesNotCount(c config.Tracing) (warnings []string) {
	for _, name := range [...]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if c.OTLP == "" && variable(name) != "" {
			return []string{name + " is set, but traces go to tracing.otlp alone, which is empty: write tracing: { otlp: URL }, or unset the variable"}
		}
	}
	if c.OTLP == "" {
		return nil
	}
	if variable("OTEL_SDK_DISABLED") == "true" {
		warnings = append(warnings, "OTEL_SDK_DISABLED does not count: leave tracing.otlp out to send no traces")
	}
	if v := variable("OTEL_TRACES_EXPORTER"); v != "" && v != "otlp" {
		warnings = append(warnings, "OTEL_TRACES_EXPORTER does not count: traces go to tracing.otlp; leave it out to send none")
	}
	if v := otlpVariable("PROTOCOL"); v != "" && v != "http/protobuf" {
		warnings = append(warnings, "OTEL_EXPORTER_OTLP_PROTOCOL does not count: spans are sent as http/protobuf, which collectors take at port 4318")
	}
	return warnings
}

// whatIsMalformed lists the variables that count and cannot be read, and what stands for them.
func whatIsMalformed(c config.Tracing) (warnings []string) {
	add := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if n := firstBad(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), isAttribute); n > 0 {
		add("OTEL_RESOURCE_ATTRIBUTES: entry %d is left out, or is taken as it stands: write name=value, with commas between, other characters as %%XX", n)
	}
	if n := firstBad(otlpVariable("HEADERS"), httptoken.IsToken); n > 0 {
		add("OTEL_EXPORTER_OTLP_HEADERS: entry %d is left out: write name=value, with commas between, other characters as %%XX", n)
	}
	if v := otlpVariable("COMPRESSION"); v != "" && v != "gzip" && v != "none" {
		add("OTEL_EXPORTER_OTLP_COMPRESSION is not understood, and nothing is compressed: write gzip or none")
	}
	if v := otlpVariable("TIMEOUT"); v != "" {
		if ms, err := strconv.Atoi(v); err != nil || ms <= 0 {
			add("OTEL_EXPORTER_OTLP_TIMEOUT is not understood, and is %s: write milliseconds, such as 10000", exportPatience)
		}
	}
	if (otlpVariable("CLIENT_CERTIFICATE") == "") != (otlpVariable("CLIENT_KEY") == "") {
		add("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY count together alone: set both")
	}
	return append(warnings, samplerWarnings(c)...)
}

// samplers are the values of OTEL_TRACES_SAMPLER; true: with a ratio.
var samplers = map[string]bool{
	"always_on": false, "always_off": false, "traceidratio": true,
	"parentbased_always_on": false, "parentbased_always_off": false, "parentbased_traceidratio": true,
}

// samplerWarnings are about what the variables say of the share of traces.
func samplerWarnings(c config.Tracing) []string {
	sampler := strings.ToLower(variable("OTEL_TRACES_SAMPLER"))
	if sampler == "" {
		return nil
	}
	if c.Sample != nil {
		return []string{"tracing.sample of the file counts, OTEL_TRACES_SAMPLER does not"}
	}
	wantsRatio, known := samplers[sampler]
	arg := variable("OTEL_TRACES_SAMPLER_ARG")
	ratio, err := strconv.ParseFloat(arg, 64)
	switch {
	case !known:
		return []string{"OTEL_TRACES_SAMPLER is not understood: every trace is recorded: write always_on, always_off or traceidratio, alone or behind parentbased_"}
	case wantsRatio && arg != "" && (err != nil || !(ratio >= 0 && ratio <= 1)):
		return []string{"OTEL_TRACES_SAMPLER_ARG is not understood: every trace is recorded: write a share from 0 to 1, such as 0.1, or tracing: { sample: 10% }"}
	}
	return nil
}

func variable(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// firstBad is the place of the first entry of a list that is not good, from 1; 0: all are.
func firstBad(list string, good func(name string) bool) int {
	if strings.TrimSpace(list) == "" {
		return 0
	}
	return 1 + slices.IndexFunc(strings.Split(list, ","), func(entry string) bool {
		name, value, found := strings.Cut(entry, "=")
		_, err := url.PathUnescape(strings.TrimSpace(value))
		return !found || err != nil || !good(strings.TrimSpace(name))
	})
}

func isAttribute(name string) bool { return name != "" }
