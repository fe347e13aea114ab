package catalog

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// modelEntry is the Model object in the API description. Members without omitempty are always
// present.
type modelEntry struct {
	ID                     string              `json:"id"`
	Object                 string              `json:"object"`
	Created                int64               `json:"created"`
	OwnedBy                string              `json:"owned_by"`
	Name                   string              `json:"name"`
	Kind                   string              `json:"kind"`
	Task                   string              `json:"task"`
	SupportedEndpoints     []string            `json:"supported_endpoints"`
	InputModalities        []string            `json:"input_modalities"`
	OutputModalities       []string            `json:"output_modalities"`
	ContextLength          int                 `json:"context_length,omitempty"`
	ModalityContextLengths map[string]int      `json:"modality_context_lengths,omitempty"`
	MaxOutputLength        int                 `json:"max_output_length,omitempty"`
	CapacityTPM            int                 `json:"capacity_tpm,omitempty"`
	Capacity               concurrencyCapacity `json:"capacity"`
	Vision                 *visionEntry        `json:"vision,omitempty"`
	Pricing                map[string]any      `json:"pricing,omitempty"`
	SupportedFeatures      []string            `json:"supported_features,omitempty"`
	IsReady                bool                `json:"is_ready"`
	ModelInfo              *modelInfo          `json:"model_info,omitempty"`
}

type concurrencyCapacity struct {
	poolCapacity
	Unit       string                  `json:"unit"`
	UpdatedAt  int64                   `json:"updated_at"`
	Modalities map[string]poolCapacity `json:"modalities,omitempty"`
}

type poolCapacity struct {
	AvailableConcurrency int     `json:"available_concurrency"`
	TotalConcurrency     int     `json:"total_concurrency"`
	ActiveRequests       int     `json:"active_requests"`
	UtilizationPercent   float64 `json:"utilization_percent"`
}

type visionEntry struct {
	MaxImageEdge      int `json:"max_image_edge,omitempty"`
	MaxPixels         int `json:"max_pixels,omitempty"`
	MaxTokens         int `json:"max_tokens,omitempty"`
	ContextLength     int `json:"context_length,omitempty"`
	RetryAfterSeconds int `json:"retry_after_seconds,omitempty"`
}

type modelInfo struct {
	// Omitted if it is unknown whether the model supports reasoning.
	SupportedReasoningEfforts []string `json:"supported_reasoning_efforts,omitzero"`
	Deprecated                int64    `json:"deprecated,omitempty"` // Unix time
	// Sunset is a Unix time.
	Sunset int64 `json:"sunset,omitempty"`
}

// newEntry fills in the members that do not change with time.
func newEntry(m *config.Model, started int64) modelEntry {
	d := defaultsByKind[m.Kind]
	e := modelEntry{
		ID: m.ID, Object: "model", Created: firstNonZero(m.Created, started), OwnedBy: firstNonEmpty(m.OwnedBy, "penstock"),
		Name: firstNonEmpty(m.Name, m.ID), Kind: m.Kind, Task: firstNonEmpty(m.Task, d.task),
		SupportedEndpoints: m.Endpoints(), InputModalities: firstNonEmptyList(m.InputModalities,
			d.input), OutputModalities: firstNonEmptyList(m.OutputModalities, d.output),
		ContextLength: m.ContextLength, ModalityContextLengths: m.ModalityContextLengths,
		MaxOutputLength: m.MaxOutputLength, CapacityTPM: m.CapacityTPM,
		Pricing: m.Pricing, SupportedFeatures: m.SupportedFeatures,
	}
	if v := m.Vision; v != nil {
		e.Vision = &visionEntry{v.MaxImageEdge, v.MaxPixels, v.MaxTokens, v.ContextLength, v.RetryAfterSeconds}
	}
	if efforts := allowedEfforts(m); efforts != nil || !m.Deprecated.IsZero() || !m.Sunset.IsZero() {
		e.ModelInfo = &modelInfo{efforts, unixOrZero(m.Deprecated), unixOrZero(m.Sunset)}
	}
	return e
}

// allowedEfforts returns the efforts that calls may request, or nil if it is unknown whether the
// model supports reasoning. If the model supports reasoning but no efforts are configured, calls
// may request any effort, and the engine gets the nearest effort that it accepts.
func allowedEfforts(m *config.Model) []string {
	if m.SupportedReasoningEfforts == nil && slices.Contains(m.SupportedFeatures, chat.FeatureReasoning) {
		return chat.ReasoningEfforts
	}
	return m.SupportedReasoningEfforts
}

// setLiveMembers sets the members that change over time: readiness, capacity, and the values that
// only the engines report.
func (e *modelEntry) setLiveMembers(m *config.Model, r *routing.Route, now time.Time) {
	e.IsReady = r.IsReady(now)
	if m.ContextLength == 0 {
		e.ContextLength = r.ContextLength(now)
	}
	// If no engine is text-only, the edge sends images.
	if m.Kind == config.ModelKindChat && m.InputModalities == nil && !r.IsTextOnly() {
		e.InputModalities = []string{"text", "image"}
	}
	e.Capacity = modelCapacity(m, r, now)
}

// modelCapacity sums the pools that calls of the model's kind use. Separate pools are also listed
// individually, but a shared pool is not split. If an upstream shares its slots between pools,
// these slots count in every pool that can use them, but only once in the sum.
func modelCapacity(m *config.Model, r *routing.Route, now time.Time) concurrencyCapacity {
	c := concurrencyCapacity{Unit: "concurrent_requests", UpdatedAt: now.Unix()}
	pools := poolsOfKind(m.Kind)
	c.poolCapacity = newPoolCapacity(r.TotalCapacity(pools, now))
	if !r.HasSeparateModalityPools() {
		return c
	}
	c.Modalities = make(map[string]poolCapacity, len(pools))
	for _, p := range pools {
		c.Modalities[p.String()] = newPoolCapacity(r.PoolCapacity(p, now))
	}
	return c
}

// poolsByKind lists the pools of the kinds that use another pool than the text pool.
var poolsByKind = map[string][]upstreams.SlotPool{
	config.ModelKindChat:          {upstreams.PoolText, upstreams.PoolVision},
	config.ModelKindTranscription: {upstreams.PoolAudio},
	config.ModelKindSpeech:        {upstreams.PoolAudio},
}

var defaultPools = []upstreams.SlotPool{upstreams.PoolText}

func poolsOfKind(kind string) []upstreams.SlotPool {
	if pools := poolsByKind[kind]; pools != nil {
		return pools
	}
	return defaultPools
}

func newPoolCapacity(c routing.Capacity) poolCapacity {
	return poolCapacity{c.Available, c.Total, c.Active, c.Utilization}
}

func unixOrZero(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func firstNonZero(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

func firstNonEmptyList(a, b []string) []string {
	if len(a) > 0 {
		return a
	}
	return b
}
