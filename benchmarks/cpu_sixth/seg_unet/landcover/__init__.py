"""Small land-cover segmentation package."""
