"""The model: made by torchvision or timm, with its weights, and spread over the ranks."""
