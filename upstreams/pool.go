package upstreams

// Pool is an admission class: calls of one pool share a limit.
type Pool uint8

// The pools. A request with images is PoolVision and nothing else; transcription and speech are
// PoolAudio.
const (
	PoolText Pool = iota
	PoolVision
	PoolAudio
	poolCount
)

// String returns the pool's name as in config, metrics and the catalog.
func (p Pool) String() string { return [...]string{"text", "vision", "audio"}[p] }
