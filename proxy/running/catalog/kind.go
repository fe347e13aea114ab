package catalog

import "penstock/config"

// kindDefaults are the properties of a kind if the configuration does not set them.
type kindDefaults struct {
	task          string
	input, output []string
}

var defaultsByKind = map[string]kindDefaults{
	config.ModelKindChat: {
		task:  "text-generation",
		input: []string{"text"}, output: []string{"text"},
	},
	config.ModelKindTranscription: {
		task:  "automatic-speech-recognition",
		input: []string{"audio"}, output: []string{"text"},
	},
	config.ModelKindSpeech: {
		task:  "text-to-speech",
		input: []string{"text"}, output: []string{"audio"},
	},
	config.ModelKindImage: {
		task:  "text-to-image",
		input: []string{"text"}, output: []string{"image"},
	},
	config.ModelKindImageEdit: {
		task:  "image-to-image",
		input: []string{"text", "image"}, output: []string{"image"},
	},
	config.ModelKindEmbedding: {
		task:  "feature-extraction",
		input: []string{"text"}, output: []string{"embedding"},
	},
	config.ModelKindRerank: {
		task:  "text-ranking",
		input: []string{"text"}, output: []string{"score"},
	},
}
