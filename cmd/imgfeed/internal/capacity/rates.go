package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// A Rate is how fast somebody has published that GPUs train a model.
type Rate struct {
	GPU             string  `json:"gpu"`
	Model           string  `json:"model"`
	ImagesPerSecond float64 `json:"images_per_second"` // as published, of all the GPUs
	GPUs            int     `json:"gpus"`
	Measured        string  `json:"measured"` // what, in words
	URL             string  `json:"url"`
}

// PerGPU returns the images a second of one GPU.
func (r *Rate) PerGPU() float64 { return r.ImagesPerSecond / float64(r.GPUs) }

// What the tables below were measured with.
const (
	mlperfH100  = "MLPerf Training v3.0, closed: Dell XE9680, MXNet, throughput of the last epoch in its log"
	mlperfA100  = "MLPerf Training v2.0, closed: NVIDIA DGX A100, MXNet, throughput of the last epoch in its log"
	nvidiaA100  = "NVIDIA DeepLearningExamples: DGX A100 80GB, PyTorch 21.03 container, mixed precision"
	nvidiaV100  = "NVIDIA DeepLearningExamples: DGX-1 16GB, PyTorch 21.03 container, mixed precision"
	nemoA100    = "NVIDIA NeMo: one DGX A100 80GB, pretraining on 224 × 224"
	nemoH100    = "NVIDIA NeMo: one DGX H100 80GB, pretraining on 224 × 224"
	timm3090    = "timm's benchmark.py: PyTorch 1.12, mixed precision, channels last, without data"
	examplesURL = "https://github.com/NVIDIA/DeepLearningExamples/blob/master/PyTorch/Classification/ConvNets/"
	resultsURL  = "https://github.com/mlcommons/"
	nemoURL     = "https://docs.nvidia.com/nemo-framework/user-guide/latest/MultimodalModels/VisionLanguageFoundation/Vit/Perf.html"
	timmURL     = "https://github.com/huggingface/pytorch-image-models/blob/main/results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"
)

// rates are figures from public documents. None is estimated, or derived from another GPU.
var rates = []Rate{
	{"h100", "resnet50", 56089, 8, mlperfH100, resultsURL + "training_results_v3.0/blob/main/Dell/results/XE9680x8H100-SXM-80GB/resnet/result_0.txt"},
	{"h100", "vit-g14", 1428, 8, nemoH100, nemoURL},
	{"a100", "resnet50", 2470, 1, nvidiaA100, examplesURL + "resnet50v1.5/README.md"},
	{"a100", "resnet50-mxnet", 27164, 8, mlperfA100, resultsURL + "training_results_v2.0/blob/main/NVIDIA/results/dgxa100_ngc22.04_mxnet/resnet/result_0.txt"},
	{"a100", "efficientnet-b0", 2489, 1, nvidiaA100, examplesURL + "efficientnet/README.md"},
	{"a100", "efficientnet-b4", 331, 1, nvidiaA100 + ", 380 × 380", examplesURL + "efficientnet/README.md"},
	{"a100", "vit-g14", 693, 8, nemoA100, nemoURL},
	{"v100", "resnet50", 1200, 1, nvidiaV100, examplesURL + "resnet50v1.5/README.md"},
	{"v100", "efficientnet-b0", 1301, 1, nvidiaV100, examplesURL + "efficientnet/README.md"},
	{"v100", "efficientnet-b4", 204, 1, nvidiaV100 + ", 380 × 380", examplesURL + "efficientnet/README.md"},
	{"rtx3090", "resnet18", 3481.78, 1, timm3090, timmURL},
	{"rtx3090", "resnet50", 1218.01, 1, timm3090, timmURL},
	{"rtx3090", "efficientnet-b0", 1751.72, 1, timm3090, timmURL},
	{"rtx3090", "convnext-tiny", 819.24, 1, timm3090, timmURL},
	{"rtx3090", "swin-tiny", 648.69, 1, timm3090, timmURL},
	{"rtx3090", "deit-small", 1050.7, 1, timm3090, timmURL},
	{"rtx3090", "deit-base", 390.04, 1, timm3090, timmURL},
	{"rtx3090", "vit-base", 392.99, 1, timm3090, timmURL},
}

// Rates returns the table of published training rates, GPU by GPU.
func Rates() []Rate { return slices.Clone(rates) }

// FindRate returns the published rate of a model on a GPU. Its error lists the known ones.
func FindRate(gpu, model string) (*Rate, error) {
	var models, gpus []string
	for i := range rates {
		r := &rates[i]
		if strings.EqualFold(r.GPU, gpu) {
			if strings.EqualFold(r.Model, model) {
				return r, nil
			}
			models = append(models, r.Model)
		}
		if !slices.Contains(gpus, r.GPU) {
			gpus = append(gpus, r.GPU)
		}
	}
	if models == nil {
		return nil, fmt.Errorf("no published rate is known of GPU %q, only of %s: give --images-per-second", gpu, strings.Join(gpus, ", "))
	}
	return nil, fmt.Errorf("no published rate is known of model %q on %s, only of %s: give --images-per-second", model, gpu, strings.Join(models, ", "))
}
