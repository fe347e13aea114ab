package engine

import (
	"slices"
	"strings"
	"unicode"

	"penstock/config"
)

// taskKinds maps the names that engines use for a model's purpose to the kinds in the catalog. The
// names are Hugging Face tasks (reported by speaches), the types used by Ollama, LM Studio and Text
// Embeddings Inference, and the kinds in another edge's catalog.
var taskKinds = map[string]string{
	"automatic-speech-recognition": config.ModelKindTranscription,
	"text-to-speech":               config.ModelKindSpeech,
	"text-to-audio":                config.ModelKindSpeech,
	"feature-extraction":           config.ModelKindEmbedding,
	"sentence-similarity":          config.ModelKindEmbedding,
	"embedding":                    config.ModelKindEmbedding,
	"embeddings":                   config.ModelKindEmbedding,
	"text-ranking":                 config.ModelKindRerank,
	"reranker":                     config.ModelKindRerank,
	"text-to-image":                config.ModelKindImage,
	"image-to-image":               config.ModelKindImageEdit,

	config.ModelKindChat:          config.ModelKindChat,
	config.ModelKindTranscription: config.ModelKindTranscription,
	config.ModelKindSpeech:        config.ModelKindSpeech,
	config.ModelKindImage:         config.ModelKindImage,
	config.ModelKindImageEdit:     config.ModelKindImageEdit,
	config.ModelKindRerank:        config.ModelKindRerank,
}

// modelKind returns a model's kind. It considers the engine's paths first, then the kind that the
// engine lists, and finally the model's name. guessed is true if the kind is derived from the name.
func (p *Profile) modelKind(m *ModelInfo) (kind string, guessed bool) {
	switch {
	case p.Path(config.OpChat) == "" && p.Path(config.OpTranscriptions) != "":
		return config.ModelKindTranscription, false
	case p.Path(config.OpChat) == "" && p.Path(config.OpSpeech) != "":
		return config.ModelKindSpeech, false
	case m.Kind != "":
		return m.Kind, false
	case p.Path(config.OpChat) == "" && p.Path(config.OpEmbeddings) != "":
		return config.ModelKindEmbedding, false
	}
	name := strings.ToLower(m.ID)
	switch {
	case p.Path(config.OpTranscriptions) != "" && strings.Contains(name, "whisper"):
		return config.ModelKindTranscription, true
	case p.Path(config.OpSpeech) != "" && isSpeechName(name):
		return config.ModelKindSpeech, true
	}
	return config.ModelKindChat, false
}

var speechModels = []string{"kokoro", "espeak", "piper", "chatterbox", "orpheus", "parler"}

// isSpeechName reports whether a word in the name is the name of a speech model, or starts or ends
// with "tts", as in xtts-v2.
func isSpeechName(name string) bool {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if strings.HasPrefix(word, "tts") || strings.HasSuffix(word, "tts") || slices.Contains(speechModels, word) {
			return true
		}
	}
	return false
}
