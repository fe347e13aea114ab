package catalog

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// entry is the Model object in the API description. Members without omitempty are always present.
type entry struct {
	ID                     string         `json:"id"`
	Object                 string         `json:"object"`
	Created                int64          `json:"created"`
	OwnedBy                string         `json:"owned_by"`
	Name                   string         `json:"name"`
	Kind                   string         `json:"kind"`
	Task                   string         `json:"task"`
	SupportedEndpoints     []string       `json:"supported_endpoints"`
	InputModalities        []string       `json:"input_modalities"`
	OutputModalities       []string       `json:"output_modalities"`
	ContextLength          int            `json:"context_length,omitempty"`
	ModalityContextLengths map[string]int `json:"modality_context_lengths,omitempty"`
	MaxOutputLength        int            `json:"max_output_length,omitempty"`
	CapacityTPM            int            `json:"capacity_tpm,omitempty"`
	Capacity               capacity       `json:"capacity"`
	Vision                 *vision        `json:"vision,omitempty"`
	Pricing                map[string]any `json:"pricing,omitempty"`
	SupportedFeatures      []string       `json:"supported_features,omitempty"`
	IsReady                bool           `json:"is_ready"`
	ModelInfo              *modelInfo     `json:"model_info,omitempty"`
}

type capacity struct {
	pool
	Unit       string          `json:"unit"`
	UpdatedAt  int64           `json:"updated_at"`
	Modalities map[string]pool `json:"modalities,omitempty"`
}

type pool struct {
	AvailableConcurrency int     `json:"available_concurrency"`
	TotalConcurrency     int     `json:"total_concurrency"`
	ActiveRequests       int     `json:"active_requests"`
	UtilizationPercent   float64 `json:"utilization_percent"`
}

type vision struct {
	MaxImageEdge      int `json:"max_image_edge,omitempty"`
	MaxPixels         int `json:"max_pixels,omitempty"`
	MaxTokens         int `json:"max_tokens,omitempty"`
	ContextLength     int `json:"context_length,omitempty"`
	RetryAfterSeconds int `json:"retry_after_seconds,omitempty"`
}

type modelInfo struct {
	// Omitted if no effort is rejected.
	SupportedReasoningEfforts []string `json:"supported_reasoning_efforts,omitzero"`
	Deprecated                int64    `json:"deprecated,omitempty"` // Unix time
	// Sunset is a Unix time.
	Sunset int64 `json:"sunset,omitempty"`
}

// newEntry fills in the members that do not change with time.
func newEntry(m *config.Model, started int64) entry {
	d := kinds[m.Kind]
	e := entry{
		ID: m.ID, Object: "model", Created: orInt(m.Created, started), OwnedBy: or(m.OwnedBy, "penstock"),
		Name: or(m.Name, m.ID), Kind: m.Kind, Task: or(m.Task, d.task),
		SupportedEndpoints: m.Endpoints(), InputModalities: orList(m.InputModalities,
			d.input), OutputModalities: orList(m.OutputModalities, d.output),
		ContextLength: m.ContextLength, ModalityContextLengths: m.ModalityContextLengths,
		MaxOutputLength: m.MaxOutputLength, CapacityTPM: m.CapacityTPM,
		Pricing: m.Pricing, SupportedFeatures: m.SupportedFeatures,
	}
	if v := m.Vision; v != nil {
		e.Vision = &vision{v.MaxImageEdge, v.MaxPixels, v.MaxTokens, v.ContextLength, v.RetryAfterSeconds}
	}
	if efforts := effortsOf(m); efforts != nil || !m.Deprecated.IsZero() || !m.Sunset.IsZero() {
		e.ModelInfo = &modelInfo{efforts, unixOf(m.Deprecated), unixOf(m.Sunset)}
	}
	return e
}

// effortsOf returns the efforts that calls may request, or nil if it is unknown whether the model
// supports reasoning. If the model supports reasoning but no efforts are configured, calls may
// request any effort, and the engine gets the nearest one that it accepts.
func effortsOf(m *config.Model) []string {
	if m.SupportedReasoningEfforts == nil && slices.Contains(m.SupportedFeatures, chat.FeatureReasoning) {
		return chat.Efforts
	}
	return m.SupportedReasoningEfforts
}

// live sets the members that change over time: readiness, capacity, and the values that only the
// engines report.
func (e *entry) live(m *config.Model, r *routing.Route, now time.Time) {
	e.IsReady = r.Ready(now)
	if m.ContextLength == 0 {
		e.ContextLength = r.ContextLength(now)
	}
	// If no engine is text-only, the edge sends images.
	if m.Kind == config.KindChat && m.InputModalities == nil && !r.TextOnly() {
		e.InputModalities = []string{"text", "image"}
	}
	e.Capacity = capacityOf(m, r, now)
}

// capacityOf sums the pools that calls of the model's kind use. Separate pools are also listed
// individually. A shared pool is not split. Some upstreams may share their slots between pools.
// Their slots count in every pool that can use them, but only once in the sum.
func capacityOf(m *config.Model, r *routing.Route, now time.Time) capacity {
	c := capacity{Unit: "concurrent_requests", UpdatedAt: now.Unix()}
	pools := []upstreams.Pool{upstreams.PoolText, upstreams.PoolVision}
	if m.Kind == config.KindTranscription || m.Kind == config.KindSpeech {
		pools = []upstreams.Pool{upstreams.PoolAudio}
	}
	c.pool = poolOf(r.Sum(pools, now))
	if !r.SeparatePools() {
		return c
	}
	c.Modalities = make(map[string]pool, len(pools))
	for _, p := range pools {
		c.Modalities[p.String()] = poolOf(r.Capacity(p, now))
	}
	return c
}

func poolOf(c routing.Capacity) pool {
	return pool{c.Available, c.Total, c.Active, c.Utilization}
}

func unixOf(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func orInt(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

func orList(a, b []string) []string {
	if len(a) > 0 {
		return a
	}
	return b
}
