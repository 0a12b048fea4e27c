class DataModule:
    def setup(self):
        pass

    def train_dataloader(self):
        raise NotImplementedError

    def val_dataloader(self):
        return None
