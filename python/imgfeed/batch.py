"""Operations on whole batches, on their device, with separate draws for each image."""

import importlib
import math
from collections.abc import Sequence
from typing import Any


class RandomErasing:
    """torchvision's RandomErasing, with another rectangle in each image of a batch.

    Args:
        p: The probability that an image has a rectangle erased, 0 to 1.
        scale: The least and the largest part of the image's area that it takes.
        ratio: The least and the largest ratio of its height to its width.
        value: The new value, in units of the batch: a number, one for each channel, or "random" for normally distributed ones.

    Ten rectangles are tried, and the first that is smaller than the image is erased. Corners come from torch's generator on the
    CPU, "random" values from that of the images' device. Raises ValueError for arguments out of range.
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0.0,
    ) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"imgfeed: RandomErasing's p is {p}, want 0 to 1")
        if not 0 <= scale[0] <= scale[1] <= 1:
            raise ValueError(f"imgfeed: RandomErasing's scale is {scale}, want parts of the area, 0 to 1, the lower first")
        if not 0 < ratio[0] <= ratio[1] < math.inf:
            raise ValueError(f"imgfeed: RandomErasing's ratio is {ratio}, want positive numbers, the lower first")
        if isinstance(value, str) and value != "random":
            raise ValueError(f'imgfeed: RandomErasing\'s value is {value!r}, want numbers or "random"')
        self.p, self.scale, self.ratio, self.value = p, scale, ratio, value

    def __call__(self, images: Any) -> Any:
        """Return a copy of images with parts erased, a float tensor (B, C, H, W), on the same device."""
        torch = importlib.import_module("torch")
        count, channels, height, width = images.shape
        mask = self._mask(torch, count, height, width).to(images.device, non_blocking=True)
        if self.value == "random":
            value = torch.randn_like(images)
        else:
            value = torch.as_tensor(self.value, dtype=images.dtype, device=images.device)
            if value.ndim:
                if len(value) not in (1, channels):
                    raise ValueError(
                        f"imgfeed: RandomErasing's value has {len(value)} numbers, and the images {channels} channels"
                    )
                value = value[:, None, None]
        return torch.where(mask, value, images)

    def _mask(self, torch: Any, count: int, height: int, width: int) -> Any:
        """Return the pixels to erase, bool (count, 1, height, width)."""
        hit = torch.rand(count) < self.p
        area = height * width * torch.empty(count, 10).uniform_(*self.scale)
        ratio = torch.empty(count, 10).uniform_(math.log(self.ratio[0]), math.log(self.ratio[1])).exp()
        corners = torch.rand(count, 2)
        tall, wide = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (tall < height) & (wide < width)
        first = fits.int().argmax(1, keepdim=True)
        hit &= fits.any(1)
        tall, wide = tall.gather(1, first)[:, 0], wide.gather(1, first)[:, 0]
        top, left = (corners[:, 0] * (height - tall + 1)).floor(), (corners[:, 1] * (width - wide + 1)).floor()
        rows, columns = torch.arange(height), torch.arange(width)
        down = (rows >= top[:, None]) & (rows < (top + tall)[:, None])
        across = (columns >= left[:, None]) & (columns < (left + wide)[:, None])
        return (hit[:, None, None] & down[:, :, None] & across[:, None, :])[:, None]
